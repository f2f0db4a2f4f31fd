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
          label: edge.label, alert: edge.alert,
        },
        classes: edge.severity + (edge.crosses ? " crosses" : ""),
      });
    });
    var ink = colour("--ink"), mute = colour("--mute"), high = colour("--high"), soft = colour("--soft");
    var card = colour("--card"), line = colour("--line"), accent = colour("--accent"), worst = colour("--critical");
    var graph = cytoscape({
      container: box, elements: elements, layout: { name: "preset", padding: 18 },
      userZoomingEnabled: false, boxSelectionEnabled: false, autounselectify: true,
      style: [
        { selector: "node", style: {
          width: 16, height: 16, "background-color": card, "border-width": 2, "border-color": ink,
          label: "data(label)", color: ink, "font-size": 11, "text-valign": "bottom", "text-margin-y": 3 } },
        { selector: ".entry", style: { "background-color": ink } },
        { selector: ".pivot", style: { "background-color": high, "border-color": high } },
        { selector: ".lane", style: {
          shape: "round-rectangle", width: "data(width)", height: "data(height)", "background-opacity": 0,
          "border-width": 1, "border-color": line, "text-valign": "top", "text-halign": "center",
          color: mute, "font-size": 11, "font-weight": "bold", "z-index": 0, events: "no", "text-margin-y": -2 } },
        { selector: "edge", style: {
          width: 1.6, "curve-style": "bezier", "line-color": mute, "target-arrow-color": mute,
          "target-arrow-shape": "triangle", "arrow-scale": .8, label: "data(label)", "font-size": 10, color: ink,
          "text-background-color": soft, "text-background-opacity": .9, "text-background-padding": 2 } },
        { selector: "edge.high", style: { "line-color": high, "target-arrow-color": high } },
        { selector: "edge.critical", style: { "line-color": worst, "target-arrow-color": worst, width: 2.4 } },
        { selector: "edge.crosses", style: { "line-style": "dashed" } },
        { selector: "edge.chosen", style: { "line-color": accent, "target-arrow-color": accent, width: 3.2 } },
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
