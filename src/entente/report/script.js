// Tooltips, sortable tables and the filter of the alerts table. The page reads well without it.
(function () {
  "use strict";

  var tip = document.getElementById("tip");

  function showTip(event) {
    var target = event.target.closest && event.target.closest("[data-tip]");
    if (!target) {
      tip.hidden = true;
      return;
    }
    tip.textContent = target.getAttribute("data-tip");
    tip.hidden = false;
    var x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    var y = event.clientY + 16;
    if (y + tip.offsetHeight > window.innerHeight - 8) y = event.clientY - tip.offsetHeight - 12;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = Math.max(8, y) + "px";
  }
  document.addEventListener("mousemove", showTip);
  document.addEventListener("click", showTip);
  window.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });

  function sortKey(row, column) {
    var cell = row.children[column];
    var key = cell.getAttribute("data-key");
    if (key === null) return cell.textContent.trim().toLowerCase();
    var value = Number(key);
    return key !== "" && !isNaN(value) ? value : key.toLowerCase();
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (head, column) {
      head.querySelector("button").addEventListener("click", function () {
        var before = head.getAttribute("aria-sort");
        var down = before === "none" ? head.classList.contains("n") : before === "ascending";
        heads.forEach(function (other) { other.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        var rows = Array.from(table.tBodies[0].rows);
        rows.sort(function (a, b) {
          var x = sortKey(a, column);
          var y = sortKey(b, column);
          if (typeof x !== typeof y) { x = String(x); y = String(y); }
          return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
        });
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
      });
    });
  });

  var find = document.getElementById("find");
  if (!find) return;
  var level = document.getElementById("level");
  var count = document.getElementById("count");
  var rows = Array.from(document.querySelectorAll("#alerts tbody tr"));
  function filter() {
    var words = find.value.toLowerCase().split(/ +/);
    var shown = 0;
    rows.forEach(function (row) {
      var said = row.textContent.toLowerCase();
      var fits = words.every(function (word) { return said.indexOf(word) >= 0; });
      row.hidden = !fits || (level.value !== "" && !row.classList.contains(level.value));
      if (!row.hidden) shown += 1;
    });
    count.textContent = shown + " of " + rows.length + " shown";
  }
  find.addEventListener("input", filter);
  level.addEventListener("change", filter);
})();
