// The filters of the page of instance types. Prices of all regions are in the page, as JSON.
"use strict";

/** Sets the prices of a region; hides types without a price there. */
function showPrices(rows, prices) {
  for (const row of rows) {
    const found = prices[row.dataset.type] ?? ["", "", ""];
    for (const [index, key] of ["ec2", "spot", "sagemaker"].entries()) {
      const cell = row.querySelector(`[data-key="${key}"]`);
      cell.textContent = found[index] || "-";
      cell.dataset.value = found[index].replace("~", "");
      cell.removeAttribute("title"); // the date of the price in the region before
    }
  }
}

/** Whether a row passes the filters. */
function passes(row, filters, data) {
  const value = (key) => row.querySelector(`[data-key="${key}"]`).dataset.value;
  const type = row.dataset.type;
  const text = `${row.textContent} ${data.arch[type]}`.toLowerCase();
  const prices = ["ec2", "sagemaker"].map(value).filter(Boolean).map(Number);
  return (
    filters.text.toLowerCase().split(/\s+/).every((word) => text.includes(word)) &&
    (!filters.gpu || value("gpu") === filters.gpu) &&
    Number(value("count")) >= Number(filters.count) &&
    Number(value("memory")) >= Number(filters.memory) &&
    (!filters.price || Math.min(...prices) <= Number(filters.price)) &&
    (!filters.runs || ["native", "ptx"].includes(value(filters.runs))) &&
    (!filters.use || data.uses[type].includes(filters.use)) &&
    type in data.prices[filters.region]
  );
}

function startCatalogue(table) {
  const form = document.getElementById("catalogue-filters");
  const count = document.getElementById("catalogue-count");
  const data = JSON.parse(document.getElementById("catalogue-data").textContent);
  const rows = [...table.tBodies[0].rows];
  const filters = () => Object.fromEntries(new FormData(form));
  const update = () => {
    const chosen = filters();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !passes(row, chosen, data);
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length} types`;
  };
  form.elements.region.addEventListener("change", () => showPrices(rows, data.prices[filters().region]));
  form.addEventListener("input", update);
  form.addEventListener("change", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () =>
    setTimeout(() => {
      showPrices(rows, data.prices[filters().region]);
      update();
    }),
  );
  makeSortable(table);
  form.hidden = false;
  update();
}

const catalogue = document.getElementById("catalogue");
if (catalogue) startCatalogue(catalogue);
