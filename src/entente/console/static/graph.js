// The host graph of an incident: lanes of silos, hops from left to right in their order.
(function () {
  "use strict";

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function draw() {
    var box = document.getElementById("graph");
    if (!box || box.dataset.drawn || !window.cytoscape) return;
    box.dataset.drawn = "yes";
    var data = JSON.parse(box.dataset.graph);
    var right = Math.max.apply(null, data.nodes.map(function (node) { return node.x; }).concat(0));
    var elements = data.lanes.map(function (lane, i) {
      return {
        data: { id: "lane " + i, label: lane.name, width: right + 190, height: lane.height },
        position: { x: right / 2, y: lane.top + lane.height / 2 }, classes: "lane", selectable: false,
        grabbable: false,
      };
    });
    data.nodes.forEach(function (node) {
      elements.push({
        data: { id: "host " + node.id, name: node.name, label: node.label },
        position: { x: node.x, y: node.y }, classes: node.kind,
      });
    });
    data.edges.forEach(function (edge) {
      elements.push({
        data: {
          id: edge.id, source: "host " + edge.source, target: "host " + edge.target,
          order: edge.order, said: edge.order + (edge.said ? "  " + edge.said : ""), alert: edge.alert,
        },
        classes: edge.severity + (edge.crosses ? " crosses" : "") + (data.labelled ? " labelled" : ""),
      });
    });
    // As tall as the lanes need, and letters that stay legible where the width makes all of it smaller.
    var last = data.lanes[data.lanes.length - 1] || { top: 0, height: 0 };
    function fitted() {
      var shrunk = Math.min(1, box.clientWidth / (right + 240));
      box.style.height = Math.round(Math.min(data.wide ? 760 : 460, Math.max(150, (last.top + last.height + 110) * shrunk))) + "px";
      return shrunk;
    }
    var letters = Math.min(16, 11 / fitted());
    var ink = colour("--ink"), mute = colour("--mute"), high = colour("--high"), soft = colour("--soft");
    var card = colour("--card"), line = colour("--line"), accent = colour("--accent"), worst = colour("--critical");
    var graph = cytoscape({
      container: box, elements: elements, layout: { name: "preset", padding: 18 },
      userZoomingEnabled: false, boxSelectionEnabled: false, autounselectify: true,
      style: [
        { selector: "node", style: {
          width: 16, height: 16, "background-color": card, "border-width": 2, "border-color": ink,
          label: "data(label)", color: ink, "font-size": letters, "text-valign": "bottom", "text-margin-y": 3 } },
        { selector: ".entry", style: { "background-color": ink } },
        { selector: ".pivot", style: { "background-color": high, "border-color": high } },
        { selector: ".lane", style: {
          shape: "round-rectangle", width: "data(width)", height: "data(height)", "background-opacity": 0,
          "border-width": 1, "border-color": line, "text-valign": "top", "text-halign": "right",
          "text-margin-x": function (lane) { return 4 - lane.data("width"); },
          color: mute, "font-size": letters, "font-weight": "bold", "z-index": 0, events: "no", "text-margin-y": -2 } },
        { selector: "edge", style: {
          width: 1.6, "curve-style": "bezier", "line-color": mute, "target-arrow-color": mute,
          "target-arrow-shape": "triangle", "arrow-scale": .8, "target-label": "data(order)", "target-text-offset": 26,
          "font-size": letters - 1, color: ink, "text-background-color": soft, "text-background-opacity": .9,
          "text-background-padding": 2 } },
        { selector: "edge.labelled", style: { "target-label": "", label: "data(said)" } },
        { selector: "edge.high", style: { "line-color": high, "target-arrow-color": high } },
        { selector: "edge.critical", style: { "line-color": worst, "target-arrow-color": worst, width: 2.4 } },
        { selector: "edge.crosses", style: { "line-style": "dashed" } },
        { selector: "edge.chosen", style: {
          "line-color": accent, "target-arrow-color": accent, width: 3.2, "target-label": "", label: "data(said)", "z-index": 9 } },
      ],
    });
    graph.on("tap", "edge", function (event) {
      graph.edges().removeClass("chosen");
      event.target.addClass("chosen");
      var button = document.querySelector('[data-evidence="' + CSS.escape(event.target.data("alert")) + '"]');
      if (button) button.click();
    });
    graph.on("tap", "node", function (event) {
      var name = event.target.data("name");
      if (name) window.location = "/entity/host?name=" + encodeURIComponent(name);
    });
    window.addEventListener("resize", function () {
      fitted();
      graph.resize();
      graph.fit(undefined, 18);
    });
    window.ententeGraph = graph;
    box.dataset.hops = graph.edges().length;
  }

  document.addEventListener("click", function (event) {
    var zoom = event.target.closest && event.target.closest("[data-zoom]");
    if (zoom && window.ententeGraph) {
      var graph = window.ententeGraph;
      if (zoom.dataset.zoom === "fit") graph.fit(undefined, 18);
      else graph.zoom({ level: graph.zoom() * Number(zoom.dataset.zoom), renderedPosition: { x: graph.width() / 2, y: graph.height() / 2 } });
    }
    var button = event.target.closest && event.target.closest("[data-evidence]");
    if (!button) return;
    document.querySelectorAll(".timeline li").forEach(function (item) {
      item.classList.toggle("chosen", item.contains(button));
    });
    if (window.ententeGraph) {
      window.ententeGraph.edges().forEach(function (edge) {
        edge.toggleClass("chosen", edge.data("alert") === button.dataset.evidence);
      });
    }
  });
  document.addEventListener("DOMContentLoaded", draw);
  document.addEventListener("htmx:afterSwap", draw);
})();
