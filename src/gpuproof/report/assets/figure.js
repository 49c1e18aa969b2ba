"use strict";
// A chart with its title, its buttons, and its values as a table.
const gpuproofFigure = (() => {
  const format = gpuproofFormat;
  const MOST_ROWS = 60;
  const MOST_COLUMNS = 12;
  const PNG = { width: 1200, ratio: 2 };
  const instances = [];

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }

  function figure(chart) {
    const label = [chart.title, chart.summary].filter(Boolean).join(": ");
    const canvas = element("canvas", { role: "img", tabindex: "0", "aria-label": `${label} Arrow keys read its values.` });
    const plot = element("div", { class: "plot" }, canvas);
    plot.style.height = `${gpuproofCharts.height(chart)}px`;
    const spoken = element("p", { class: "spoken", "aria-live": "polite" });
    const entry = { chart, canvas, spoken, group: chart.group, height: gpuproofCharts.height(chart) };
    const button = (text, name, action) =>
      element("button", { type: "button", "aria-label": `${name}: ${chart.title}`, title: name, onclick: action }, text);
    const tools = element(
      "div",
      { class: "tools" },
      button("+", "Zoom in", () => zoom(entry, 1.5)),
      button("−", "Zoom out", () => zoom(entry, 1 / 1.5)),
      button("←", "Move left", () => move(entry, 1)),
      button("→", "Move right", () => move(entry, -1)),
      button("Reset", "Reset the zoom", () => reset(entry)),
      button("PNG", "Save as PNG", () => savePng(entry)),
    );
    const details = dataTable(chart);
    const made = element(
      "figure",
      {},
      element(
        "figcaption",
        {},
        element("div", {}, element("h3", {}, chart.title), ...(chart.caption ? [element("p", {}, chart.caption)] : [])),
        tools,
      ),
      plot,
      ...(chart.type === "heatmap" ? [scale(chart)] : []),
      spoken,
      details,
    );
    entry.change = (changed) => {
      entry.chart = changed;
      gpuproofCharts.change(entry.instance, changed);
      details.fill(changed);
    };
    canvas.addEventListener("keydown", (event) => onKey(entry, event));
    // Chart.js measures its canvas, which has to be in the document.
    entry.draw = () => {
      entry.instance = gpuproofCharts.create(canvas, chart, ({ chart: zoomed }) => follow(entry, zoomed));
      instances.push(entry);
    };
    return { element: made, entry };
  }

  // The colours of a heatmap.
  function scale(chart) {
    const text = format.byUnit(chart.unit);
    const ends = [text(0), element("span", { class: "gradient", "aria-hidden": "true" }), text(chart.top)];
    return element("p", { class: "scale" }, ...ends, element("span", {}, "blank: unknown"));
  }

  function zoom(entry, factor) {
    entry.instance.zoom(factor);
  }

  function move(entry, direction) {
    const { x } = entry.instance.scales;
    entry.instance.pan({ x: direction * 0.25 * x.width }, undefined, "none");
  }

  function reset(entry) {
    for (const each of together(entry)) each.instance.resetZoom("none");
  }

  // The charts that show the same period.
  const together = (entry) =>
    entry.group ? instances.filter((each) => each.group === entry.group && each.instance) : [entry];

  function follow(entry, zoomed) {
    const { min, max } = zoomed.scales.x;
    for (const each of together(entry)) {
      const { x } = each.instance.scales;
      if (each !== entry && (x.min !== min || x.max !== max)) each.instance.zoomScale("x", { min, max }, "none");
    }
  }

  function onKey(entry, event) {
    const keys = {
      ArrowLeft: () => read(entry, -1),
      ArrowRight: () => read(entry, 1),
      "+": () => zoom(entry, 1.5),
      "-": () => zoom(entry, 1 / 1.5),
      0: () => reset(entry),
      Escape: () => read(entry, null),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  }

  // Show and say the next values; `null` hides them.
  function read(entry, step) {
    const { instance } = entry;
    const shown = instance.data.datasets
      .map((dataset, datasetIndex) => ({ dataset, datasetIndex }))
      .filter(({ dataset, datasetIndex }) => !dataset.isLimit && instance.isDatasetVisible(datasetIndex));
    const count = shown.length ? shown[0].dataset.data.length : 0;
    if (step === null || count === 0) entry.index = undefined;
    else entry.index = entry.index === undefined ? (step > 0 ? 0 : count - 1) : (entry.index + step + count) % count;
    const active =
      entry.index === undefined
        ? []
        : shown
            .filter(({ dataset }) => entry.index < dataset.data.length)
            .map(({ datasetIndex }) => ({ datasetIndex, index: entry.index }));
    const place = active.length ? instance.getDatasetMeta(active[0].datasetIndex).data[entry.index] : { x: 0, y: 0 };
    instance.setActiveElements(active);
    instance.tooltip.setActiveElements(active, { x: place.x, y: place.y });
    instance.update("none");
    const { title = [], body = [] } = instance.tooltip;
    entry.spoken.textContent = active.length ? [...title, ...body.flatMap((part) => part.lines)].join(", ") : "";
  }

  function savePng(entry) {
    const { instance, chart } = entry;
    const ratio = instance.options.devicePixelRatio;
    instance.options.plugins.title.display = true;
    instance.options.devicePixelRatio = PNG.ratio;
    instance.resize(PNG.width, Math.max(entry.height, 420));
    instance.update("none");
    const link = element("a", { href: instance.toBase64Image(), download: `${fileName(chart.title)}.png` });
    instance.options.plugins.title.display = false;
    instance.options.devicePixelRatio = ratio;
    instance.resize();
    instance.update("none");
    link.click();
  }

  const fileName = (title) => title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase() || "chart";

  function dataTable(chart) {
    const details = element("details", { class: "data" }, element("summary", {}, "Values as a table"));
    let shown = chart;
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) details.append(...TABLES[shown.type](shown));
    });
    // Other values; they are shown when it is opened the next time, since a table that is read must not move.
    details.fill = (changed) => {
      shown = changed;
      if (!details.open) details.replaceChildren(details.firstChild);
    };
    return details;
  }

  function table(headers, rows, left = 1) {
    const cell = (name, text, index) =>
      element(name, { class: index >= left ? "right" : null, scope: name === "th" ? "col" : null }, text);
    const [head, body] = [element("thead"), element("tbody")];
    head.append(element("tr", {}, ...headers.map((text, index) => cell("th", text, index))));
    body.append(
      ...rows.map((row) =>
        element(
          "tr",
          {},
          ...row.map((text, index) => (index ? cell("td", text, index) : element("th", { scope: "row" }, text))),
        ),
      ),
    );
    return element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values" },
      element("table", {}, head, body),
    );
  }

  const withUnit = (unit) => (value) =>
    value === null || value === undefined ? "–" : format.byUnit(unit)(value);

  function lineTable(chart) {
    const text = withUnit(chart.unit);
    const rows = new Map();
    gpuproofCharts.unscaled(chart.lines, chart.scale).forEach((line, index) => {
      gpuproofCharts.secondsOf(line).forEach((second, at) => {
        if (!rows.has(second)) rows.set(second, Array(chart.lines.length).fill(null));
        rows.get(second)[index] = line.values[at];
      });
    });
    const all = [...rows].sort((a, b) => a[0] - b[0]);
    const stride = Math.ceil(all.length / MOST_ROWS);
    const shown = all.filter((_, index) => index % stride === 0);
    const made = table(
      ["after", ...chart.lines.map((line) => line.label)],
      shown.map(([second, values]) => [format.duration(second), ...values.map(text)]),
    );
    const events = chart.events.map((event) => [format.duration(event.seconds), event.label]);
    return [
      ...(stride > 1 ? [element("p", {}, `Every ${stride}th of ${all.length} values.`)] : []),
      made,
      ...(events.length ? [table(["after", "event"], events, 2)] : []),
    ];
  }

  function scatterTable(chart) {
    const [x, y] = [withUnit(chart.x.unit), withUnit(chart.y.unit)];
    const rows = chart.points.map((point) => [point.label, x(point.x), y(point.y), point.series, point.note]);
    return [table(["", chart.x.label, chart.y.label, "kind", "note"], rows)];
  }

  function barTable(chart) {
    const text = withUnit(chart.unit);
    const rows = chart.labels.map((label, index) => [
      label,
      ...chart.series.map((part) => text(part.values[index])),
      ...(chart.texts.length ? [chart.texts[index]] : []),
    ]);
    return [table(["", ...chart.series.map((part) => part.label), ...(chart.texts.length ? ["in words"] : [])], rows)];
  }

  function heatmapTable(chart) {
    const text = withUnit(chart.unit);
    const columns = Math.max(...chart.rows.map((row) => row.values.length), 0);
    const width = Math.max(1, Math.ceil(columns / MOST_COLUMNS));
    const starts = Array.from({ length: Math.ceil(columns / width) }, (_, index) => index * width);
    const mean = (values) => {
      const known = values.filter((value) => value !== null && value !== undefined);
      return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
    };
    const rows = chart.rows.map((row) => [
      row.label,
      text(mean(row.values)),
      ...starts.map((start) => text(mean(row.values.slice(start, start + width)))),
    ]);
    const headers = starts.map((start) => `from ${format.duration(start * chart.step_s)}`);
    return [element("p", {}, "Means over each period."), table(["", "mean", ...headers], rows)];
  }

  const TABLES = { line: lineTable, scatter: scatterTable, bar: barTable, heatmap: heatmapTable };

  function clear() {
    for (const { instance } of instances.splice(0)) instance.destroy();
  }

  return { clear, element, figure, instances, table };
})();
