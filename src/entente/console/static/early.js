// A click or an entry before htmx has read the page would be lost: it is kept and given again.
(function () {
  "use strict";

  var TOOLS = {
    click: "button[hx-get], button[hx-post], form[hx-get] button, form[hx-post] button",
    input: "form[hx-get] input, input[hx-get]",
    change: "form[hx-get] select, form[hx-get] input, select[hx-get], input[hx-get]"
  };
  var kept = new Map(); // kind of event -> what it happened to

  function keep(event) {
    var tool = event.target.closest && event.target.closest(TOOLS[event.type]);
    if (!tool) return;
    if (event.type === "click") { event.preventDefault(); event.stopPropagation(); }
    kept.set(event.type, tool);
  }
  Object.keys(TOOLS).forEach(function (kind) { document.addEventListener(kind, keep, true); });
  document.addEventListener("htmx:load", function () {
    Object.keys(TOOLS).forEach(function (kind) { document.removeEventListener(kind, keep, true); });
    kept.forEach(function (tool, kind) {
      if (kind === "click") tool.click();
      else tool.dispatchEvent(new Event(kind, { bubbles: true }));
    });
  }, { once: true });
})();
