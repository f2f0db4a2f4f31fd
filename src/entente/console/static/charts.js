// Small series by uPlot: data and names stand in the element's attributes.
(function () {
  "use strict";

  var COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7a7a7a", "#a0522d"];

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function draw() {
    if (!window.uPlot) return;
    document.querySelectorAll(".chart[data-series]").forEach(function (box) {
      if (box.dataset.drawn) return;
      box.dataset.drawn = "yes";
      var data = JSON.parse(box.dataset.series), names = JSON.parse(box.dataset.names);
      if (!data[0] || !data[0].length) { box.textContent = "No data yet."; return; }
      var bars = box.dataset.kind === "bars";
      var days = names[0] === "day";
      // Logs with a clock of their own count days from 1, as the rest of the page does.
      function day(number) {
        if (number === null) return "–";
        return number < 7300 ? "day " + (number + 1) : new Date(number * 86400000).toISOString().slice(0, 10);
      }
      function plain(u, value) { return value === null || value === undefined ? "–" : String(Math.round(value * 1000) / 1000); }
      var series = names.map(function (name, i) {
        if (i === 0) return { label: name, value: days ? function (u, number) { return day(number); } : plain };
        var stroke = COLOURS[(i - 1) % COLOURS.length];
        var one = { label: name, value: plain, stroke: stroke, width: 1.6, spanGaps: true, points: { show: data[0].length < 40, size: 4 } };
        if (name === "M") { one.dash = [5, 4]; one.stroke = colour("--ink"); one.points = { show: false }; }
        if (bars) { one.fill = stroke + "99"; one.paths = uPlot.paths.bars({ size: [0.7, 40] }); one.points = { show: false }; }
        return one;
      });
      var axis = { stroke: colour("--mute"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      var first = data[0][0], last = data[0][data[0].length - 1], pad = bars || first === last ? 0.6 : 0;
      var plot = new uPlot({
        width: Math.max(240, box.clientWidth), height: 200, series: series, cursor: { drag: { x: false, y: false } },
        padding: [8, days ? 34 : 12, 0, 0],
        scales: { x: { time: false, range: [first - pad, last + pad] }, y: { range: function (u, low, high) { return [Math.min(0, low), high > low || high > 0 ? high * 1.06 : 1]; } } },
        axes: [Object.assign({ size: 26, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, days ? { values: function (u, marks) { return marks.map(day); }, space: 90 } : {}, axis), Object.assign({ size: 46 }, axis)],
      }, data, box);
      // Beside the names stand the latest values, until the pointer is at others.
      function latest() { plot.setLegend({ idx: data[0].length - 1 }); }
      plot.over.addEventListener("mouseleave", function () { window.setTimeout(latest); });
      window.setTimeout(latest);
      window.addEventListener("resize", function () { plot.setSize({ width: Math.max(240, box.clientWidth), height: 200 }); });
    });
  }

  document.addEventListener("DOMContentLoaded", draw);
  document.addEventListener("htmx:afterSwap", draw);
})();
