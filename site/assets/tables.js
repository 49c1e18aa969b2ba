// Sorts tables by their headings, and filters those of `.gp-table` by a text.
"use strict";

/** The value of a cell for sorting: a number where the whole column has numbers, else text. */
function cellValue(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value ?? cell.textContent.trim();
  if (value === "" || value === "-") return null;
  const number = Number(value);
  return Number.isNaN(number) ? value : number;
}

/** Compares two values; missing ones come last in both directions. */
function compareValues(left, right, direction) {
  if (left === null || right === null) return (left === null) - (right === null);
  if (typeof left === "number" && typeof right === "number") return direction * (left - right);
  return direction * String(left).localeCompare(String(right), "en", { numeric: true });
}

function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [cellValue(row, column), row]);
  rows.sort(([left], [right]) => compareValues(left, right, direction));
  body.append(...rows.map(([, row]) => row));
  for (const [index, heading] of [...table.tHead.rows[0].cells].entries()) {
    if (index === column) heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    else heading.removeAttribute("aria-sort");
  }
}

/** Turns the headings of a table into buttons that sort it. */
function makeSortable(table) {
  for (const [column, heading] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "gp-sort";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => {
      sortTable(table, column, heading.getAttribute("aria-sort") === "ascending" ? -1 : 1);
    });
    heading.append(button);
  }
}

/** Adds a field that hides the rows without its words. */
function makeFilterable(frame) {
  const table = frame.querySelector("table");
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("output");
  input.type = "search";
  input.placeholder = frame.dataset.label;
  label.className = "gp-filter";
  count.setAttribute("aria-live", "polite");
  const name = document.createElement("span");
  name.textContent = frame.dataset.label;
  name.className = "gp-hidden";
  label.append(name, input, count);
  const rows = [...table.tBodies[0].rows].map((row) => [row.textContent.toLowerCase(), row]);
  const update = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [text, row] of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length}`;
  };
  input.addEventListener("input", update);
  frame.prepend(label);
  update();
}

for (const frame of document.querySelectorAll(".gp-table")) {
  makeFilterable(frame);
  makeSortable(frame.querySelector("table"));
}

/** Lets a keyboard scroll what is wider than the page. */
function makeScrollable() {
  for (const element of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap")) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
  }
}

makeScrollable();
addEventListener("resize", makeScrollable);
addEventListener("load", makeScrollable);
// The theme puts tables into frames when it starts.
new MutationObserver(makeScrollable).observe(document.querySelector("article") ?? document.body, { childList: true });
