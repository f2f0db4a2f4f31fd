// Keys, choosing rows, the dialogue, toasts and live updates. Pages read well without it.
(function () {
  "use strict";

  var current = null; // id of the case that the keyboard stands on
  var chosen = new Set();

  function all(selector, root) { return Array.from((root || document).querySelectorAll(selector)); }
  function rows() { return all("tr[data-case]"); }
  function typing(event) {
    return /^(input|select|textarea)$/i.test(event.target.tagName) && event.target.type !== "checkbox";
  }

  // ---- the queue ---------------------------------------------------------------------------
  function stand(row, focus) {
    rows().forEach(function (other) { other.classList.toggle("current", other === row); });
    current = row ? row.dataset.case : null;
    if (row && focus) { row.focus({ preventScroll: true }); row.scrollIntoView({ block: "nearest" }); }
  }
  function standing() { return rows().find(function (row) { return row.dataset.case === current; }); }
  function move(step) {
    var list = rows();
    if (!list.length) return;
    var place = list.indexOf(standing());
    stand(list[Math.max(0, Math.min(list.length - 1, place < 0 ? 0 : place + step))], true);
  }
  function renewTools() {
    var boxes = all('input[name="chosen"][type="checkbox"]');
    chosen = new Set(boxes.filter(function (box) { return box.checked; })
      .map(function (box) { return box.closest("tr").dataset.case; }));
    all("[data-needs-choice]").forEach(function (tool) { tool.disabled = chosen.size === 0; });
    var every = document.getElementById("choose-all");
    if (every) {
      every.checked = boxes.length > 0 && chosen.size === boxes.length;
      every.indeterminate = chosen.size > 0 && chosen.size < boxes.length;
    }
  }
  function restore(before) {
    rows().forEach(function (row) {
      var box = row.querySelector('input[name="chosen"]');
      if (box && chosen.has(row.dataset.case)) box.checked = true;
      if (before && !before.has(row.dataset.case)) row.classList.add("fresh");
    });
    if (current) stand(standing() || null, false);
    renewTools();
  }
  function act(action, reason) {
    var form = document.getElementById("bulk");
    var row = standing();
    if (!form || (!row && chosen.size === 0)) return;
    if (chosen.size === 0) { row.querySelector('input[name="chosen"]').checked = true; renewTools(); }
    if (reason) form.querySelector('select[name="reason"]').value = reason;
    form.querySelector('button[value="' + action + '"]').click();
  }

  document.addEventListener("change", function (event) {
    if (event.target.id === "choose-all") {
      all('input[name="chosen"][type="checkbox"]').forEach(function (box) { box.checked = event.target.checked; });
    }
    if (event.target.id === "choose-all" || event.target.name === "chosen") renewTools();
  });
  document.addEventListener("click", function (event) {
    var row = event.target.closest && event.target.closest("tr[data-case]");
    if (row) stand(row, false);
    if (event.target.closest("[data-dismiss]")) document.getElementById("toast").textContent = "";
    if (event.target.closest("[data-print]")) window.print();
    if (event.target.closest("[data-close-dialog]")) closeDialog();
  });

  // ---- keys --------------------------------------------------------------------------------
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && typing(event)) { // out of the field; what is in it stays
      event.preventDefault();
      event.target.blur();
    }
    if (typing(event)) return;
    var queue = document.querySelector("[data-queue]");
    var row = standing();
    if (event.key === "u") { press("[data-undo]"); }
    else if (event.key === "/" && document.getElementById("q")) {
      event.preventDefault();
      document.getElementById("q").focus();
    } else if (queue) {
      if (event.key === "j") move(1);
      else if (event.key === "k") move(-1);
      else if (event.key === "x" && row) { row.querySelector('input[name="chosen"]').click(); }
      else if (event.key === "Enter" && row && event.target === row) window.location = row.dataset.href;
      else if (event.key === "a") act("acknowledge");
      else if (event.key === "c") askReason();
      else if (event.key === "s" && row) window.location = row.dataset.href + "#suppress";
    } else { press('[data-key="' + CSS.escape(event.key) + '"]'); }
  });
  function press(selector) {
    var found = document.querySelector(selector);
    if (found) found.click();
  }
  function askReason() {
    var row = standing();
    if (chosen.size === 0 && row) { row.querySelector('input[name="chosen"]').checked = true; renewTools(); }
    var select = document.querySelector('#bulk select[name="reason"]');
    if (select && !select.disabled) select.focus();
  }
  document.addEventListener("keydown", function (event) {
    if (event.key === "Enter" && event.target.matches && event.target.matches('#bulk select[name="reason"]')) {
      event.preventDefault();
      act("close", event.target.value);
    }
  });

  // ---- htmx: where answers go ----------------------------------------------------------------
  function closeDialog() {
    var dialog = document.getElementById("dialog");
    if (dialog && dialog.open) dialog.close();
  }
  document.addEventListener("htmx:beforeSwap", function (event) {
    var status = event.detail.xhr.status;
    if (status >= 400 && status !== 401) {
      event.detail.target = document.getElementById("toast");
      event.detail.swapOverride = "innerHTML";
    }
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    var target = event.detail.target;
    if (target.id === "dialog" && event.detail.xhr.status < 400 && !target.open) target.showModal();
    if (target.id === "cases") restore();
    if (target.id === "toast" && event.detail.xhr.status < 400) { chosen.clear(); renewQueue(); }
    if (target.id === "evidence") target.scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("htmx:sendError", function () {
    say("The console does not answer. Is it still running?");
  });
  document.body.addEventListener("suppressed", function () {
    closeDialog();
    renewIncident();
  });
  function say(words) {
    var box = document.createElement("div");
    box.className = "said wrong";
    box.textContent = words;
    document.getElementById("toast").replaceChildren(box);
  }

  // ---- live ----------------------------------------------------------------------------------
  function renewQueue() {
    var cases = document.querySelector("[data-queue]");
    if (!cases) return;
    var before = new Set(rows().map(function (row) { return row.dataset.case; }));
    htmx.ajax("GET", "/queue" + window.location.search, { target: "#cases", swap: "innerHTML" })
      .then(function () { restore(before); });
  }
  function renewIncident() {
    var incident = document.querySelector("[data-incident]");
    if (!incident || incident.contains(document.activeElement) && typing({ target: document.activeElement })) return;
    htmx.ajax("GET", window.location.pathname, { target: "#incident", swap: "innerHTML" });
  }
  if (document.body.hasAttribute("data-live") && window.EventSource) {
    var stream = new EventSource("/events?since=" + document.body.dataset.live);
    stream.addEventListener("changed", function () {
      renewQueue();
      var incident = document.querySelector("[data-incident]");
      if (incident && !incident.querySelector("[data-stale]")) announce(incident);
    });
    window.addEventListener("pagehide", function () { stream.close(); });
  }
  // Somebody else may be at the same incident: say so, and let whoever reads decide when to look again.
  function announce(incident) {
    fetch(window.location.pathname, { headers: { "HX-Request": "true", "HX-Target": "incident" } })
      .then(function (answer) { return answer.ok ? answer.text() : ""; })
      .then(function (text) {
        var now = /name="chosen" value="([^"]*)"/.exec(text);
        var shown = incident.querySelector('input[name="chosen"]');
        if (!now || !shown || now[1] === shown.value) return;
        var box = document.createElement("div");
        box.className = "said";
        box.setAttribute("data-stale", "");
        box.textContent = "This incident has changed since you opened it. ";
        var look = document.createElement("button");
        look.type = "button";
        look.textContent = "Look again";
        look.addEventListener("click", renewIncident);
        box.appendChild(look);
        incident.prepend(box);
      });
  }

  window.addEventListener("DOMContentLoaded", function () {
    if (window.location.hash === "#suppress") press('[data-key="s"]');
    renewTools();
  });
})();
