"use strict";
// Draws the charts of a page with Chart.js and its plugins.
const gpuproofCharts = (() => {
  const format = gpuproofFormat;
  const { DASHES, POINTS, background, colours, heat, mix, pattern, series } = gpuproofTheme;
  const { annotations, widthOf } = gpuproofMarks;
  const BAR_HEIGHT = 34;

  const secondsOf = (line) => line.seconds ?? line.values.map((_, index) => line.start + index * line.step);

  // Lines with their values in the chart's unit.
  function unscaled(lines, scale) {
    const times = (values) => values?.map((value) => (value === null ? null : value * scale));
    return lines.map((line) => ({ ...line, values: times(line.values), low: times(line.low), high: times(line.high) }));
  }

  function timeAxis(end, begin = 0) {
    const axis = {
      type: "linear",
      min: begin,
      max: end,
      offset: false,
      grid: { color: () => colours.line },
      border: { color: () => colours.line },
      ticks: { color: () => colours.muted, autoSkip: false, maxRotation: 0 },
    };
    return setTimeTicks(axis);
  }

  // Marks at whole minutes, hours or days.
  function setTimeTicks(axis) {
    axis.afterBuildTicks = (scale) => {
      const step = format.timeStep(scale.max - scale.min, Math.max(2, (scale.isHorizontal() ? scale.width / 80 : 5)));
      scale.ticks = [];
      for (let at = Math.ceil(scale.min / step - 1e-9) * step; at <= scale.max * (1 + 1e-9); at += step)
        scale.ticks.push({ value: at });
      scale.gpuproofStep = step;
    };
    axis.ticks.callback = function (value) {
      return format.timeMark(value, this.gpuproofStep ?? 1);
    };
    return axis;
  }

  function valueAxis(unit, top, label) {
    const text = format.byUnit(unit);
    const axis = {
      type: "linear",
      beginAtZero: true,
      grid: { color: () => colours.line },
      border: { display: false },
      ticks: { color: () => colours.muted, maxTicksLimit: 6, callback: (value) => text(value) },
    };
    if (top !== null && top !== undefined) axis.max = top;
    if (unit === "seconds") setTimeTicks(axis);
    // Ticks of memory at round numbers of GiB.
    if (unit === "bytes")
      axis.afterBuildTicks = (scale) => {
        const power = 2 ** Math.floor(Math.log2(Math.max(scale.max, 1) / 4));
        const step = Math.max(power, 1);
        scale.ticks = [];
        for (let at = 0; at <= scale.max * 1.0001; at += step) if (at >= scale.min) scale.ticks.push({ value: at });
      };
    if (label) axis.title = { display: true, text: label, color: () => colours.muted };
    return axis;
  }

  function options(chart, more) {
    return {
      responsive: true,
      maintainAspectRatio: false,
      animation: false,
      normalized: true,
      layout: { padding: { top: 4, right: 10 } },
      ...more,
      plugins: {
        title: { display: false, text: chart.title, color: () => colours.ink, font: { size: 16, weight: "600" } },
        annotation: { annotations: {} },
        ...more.plugins,
        legend: {
          display: false,
          position: "bottom",
          labels: { color: () => colours.ink, usePointStyle: true, boxHeight: 8, padding: 14 },
          ...more.plugins.legend,
        },
        tooltip: {
          backgroundColor: () => colours.ink,
          titleColor: () => colours.surface,
          bodyColor: () => colours.surface,
          padding: 9,
          boxPadding: 5,
          usePointStyle: true,
          ...more.plugins.tooltip,
        },
      },
    };
  }

  function zoom(mode, onZoom) {
    return {
      limits: { x: { min: "original", max: "original" }, y: { min: "original", max: "original" } },
      zoom: {
        mode,
        wheel: { enabled: true, modifierKey: "ctrl", speed: 0.15 },
        drag: {
          enabled: true,
          threshold: 6,
          backgroundColor: () => mix(colours.series[0], 0.2),
          borderColor: () => colours.series[0],
          borderWidth: 1,
        },
        onZoom,
      },
      pan: { mode, onPan: onZoom },
    };
  }

  function lineConfig(chart, onZoom) {
    const text = format.byUnit(chart.unit);
    const datasets = [];
    let end = chart.span ?? 0;
    unscaled(chart.lines, chart.scale).forEach((line, index) => {
      const seconds = secondsOf(line);
      const points = (values) => seconds.map((x, at) => ({ x, y: values[at] }));
      end = Math.max(end, seconds[seconds.length - 1] ?? 0);
      const common = { line: index, parsing: false, pointRadius: 0, pointHitRadius: 0, stepped: false };
      if (line.low) {
        const limit = { ...common, isLimit: true, borderWidth: 0, label: line.label };
        datasets.push({ ...limit, data: points(line.low), fill: false });
        datasets.push({ ...limit, data: points(line.high), fill: "-1", backgroundColor: () => mix(series(index), 0.22) });
      }
      const isAlone = (at) => line.values[at - 1] == null && line.values[at + 1] == null;
      datasets.push({
        ...common,
        label: line.label,
        data: points(line.values),
        limits: line.low ? [line.low, line.high] : null,
        borderColor: () => series(index),
        backgroundColor: () => series(index),
        borderDash: DASHES[index % DASHES.length],
        borderWidth: chart.lines.length > 4 ? 1.5 : 2,
        pointStyle: "line",
        pointRadius: line.values.map((_, at) => (isAlone(at) ? 2.5 : 0)),
        pointHoverRadius: 4,
        tension: 0,
      });
    });
    const config = {
      type: "line",
      data: { datasets },
      options: options(chart, {
        interaction: { mode: "nearest", axis: "x", intersect: false },
        scales: {
          x: timeAxis(end || 1, chart.begin),
          y: {
            ...valueAxis(chart.unit, chart.top),
            grace: chart.limit === null ? "8%" : 0,
            suggestedMax: chart.limit === null ? undefined : 1.15 * chart.limit,
          },
        },
        plugins: {
          zoom: zoom("x", onZoom),
          filler: { drawTime: "beforeDatasetsDraw" },
          annotation: { annotations: annotations(chart) },
          legend: {
            display: chart.lines.length > 1,
            labels: {
              color: () => colours.ink,
              usePointStyle: true,
              pointStyleWidth: 40,
              boxHeight: 8,
              padding: 12,
              generateLabels: (drawn) =>
                Chart.defaults.plugins.legend.labels
                  .generateLabels(drawn)
                  .map((item) => ({ ...item, lineWidth: 2, lineDash: drawn.data.datasets[item.datasetIndex].borderDash })),
              filter: (item, data) => !data.datasets[item.datasetIndex].isLimit,
            },
            onClick(_, item, legend) {
              const { line } = legend.chart.data.datasets[item.datasetIndex];
              const shown = !legend.chart.isDatasetVisible(item.datasetIndex);
              legend.chart.data.datasets.forEach((dataset, at) => {
                if (dataset.line === line) legend.chart.setDatasetVisibility(at, shown);
              });
              legend.chart.update();
            },
          },
          tooltip: {
            filter: (item) => !item.dataset.isLimit,
            itemSort: (a, b) => b.parsed.y - a.parsed.y,
            callbacks: {
              title: (items) => (items.length ? `after ${format.duration(items[0].parsed.x)}` : ""),
              label(item) {
                const limits = item.dataset.limits;
                const [low, high] = limits ? limits.map((values) => values[item.dataIndex]) : [null, null];
                const range = low === null || high === null ? "" : ` (${text(low)} to ${text(high)})`;
                return `${item.dataset.label}: ${text(item.parsed.y)}${range}`;
              },
              labelPointStyle: () => ({ pointStyle: "line", rotation: 0 }),
            },
          },
        },
      }),
    };
    return config;
  }

  function scatterConfig(chart, onZoom) {
    const names = [...new Set(chart.points.map((point) => point.series))];
    const axis = (side, name) =>
      side.is_logarithmic
        ? logarithmicAxis(side.unit, side.label, chart.points.map((point) => point[name]))
        : { ...valueAxis(side.unit, null, side.label), grace: "8%" };
    const [x, y] = [format.byUnit(chart.x.unit), format.byUnit(chart.y.unit)];
    const marked = Object.fromEntries(
      chart.points
        .filter((point) => point.is_marked)
        .map((point, index) => [
          `point-${index}`,
          {
            type: "label",
            xValue: point.x,
            yValue: point.y,
            content: point.label,
            color: () => colours.ink,
            backgroundColor: () => mix(colours.surface, 0.75),
            position: { x: ({ chart: drawn }) => (isRight(drawn, point.x) ? "end" : "start"), y: "center" },
            xAdjust: ({ chart: drawn }) => (isRight(drawn, point.x) ? -8 : 8),
            font: { size: 11 },
            padding: 2,
          },
        ]),
    );
    return {
      type: "scatter",
      data: {
        datasets: names.map((name, index) => ({
          label: name,
          data: chart.points.filter((point) => point.series === name),
          borderColor: () => series(index),
          backgroundColor: () => mix(series(index), 0.75),
          pointStyle: POINTS[index % POINTS.length],
          pointRadius: 6,
          pointHoverRadius: 8,
          pointBorderWidth: 2,
        })),
      },
      options: options(chart, {
        interaction: { mode: "nearest", intersect: false },
        scales: { x: axis(chart.x, "x"), y: axis(chart.y, "y") },
        plugins: {
          zoom: zoom("xy", onZoom),
          annotation: { annotations: marked },
          legend: { display: names.length > 1 },
          tooltip: {
            callbacks: {
              title: (items) => items[0]?.raw.label ?? "",
              label: ({ raw }) => [
                `${chart.x.label}: ${x(raw.x)}`,
                `${chart.y.label}: ${y(raw.y)}`,
                ...[raw.series, raw.note].filter(Boolean),
              ],
            },
          },
        },
      }),
    };
  }

  function isRight(drawn, value) {
    const axis = drawn.scales?.x;
    return axis ? axis.getPixelForValue(value) > axis.left + 0.75 * axis.width : false;
  }

  // Marks at 1, 2 and 5 of each magnitude, or at usual durations; the ends have room for labels.
  function logarithmicAxis(unit, label, values) {
    const axis = valueAxis(unit, null, label);
    axis.afterBuildTicks = (scale) => {
      const all = unit === "seconds" ? format.DURATIONS : format.MAGNITUDES;
      scale.ticks = all.filter((value) => value >= scale.min && value <= scale.max).map((value) => ({ value }));
    };
    axis.ticks.callback = format.byUnit(unit);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high / low) ** 0.08 * 1.1;
    return { ...axis, type: "logarithmic", beginAtZero: false, min: low / room, max: high * room };
  }

  function barConfig(chart, onZoom) {
    const text = format.byUnit(chart.unit);
    return {
      type: "bar",
      data: {
        labels: [...chart.labels],
        datasets: chart.series.map((part, index) => ({
          label: part.label,
          data: part.values,
          backgroundColor: ({ chart: drawn }) => pattern(index, drawn.ctx),
          borderColor: () => colours.surface,
          borderWidth: { right: 1.5 },
          borderSkipped: false,
          maxBarThickness: 22,
          pointStyle: "rect",
        })),
      },
      options: options(chart, {
        indexAxis: "y",
        interaction: { mode: "index", axis: "y", intersect: false },
        scales: {
          x: { ...valueAxis(chart.unit, chart.top), stacked: true },
          y: { stacked: true, grid: { display: false }, ticks: { color: () => colours.ink, autoSkip: false } },
        },
        plugins: {
          zoom: zoom("x", onZoom),
          legend: { display: chart.series.length > 1 },
          tooltip: {
            filter: (item) => Boolean(item.raw),
            callbacks: {
              label: (item) => `${item.dataset.label}: ${text(item.raw)}`,
              footer: (items) => (items.length && chart.texts[items[0].dataIndex]) || "",
            },
          },
        },
      }),
    };
  }

  function heatmapConfig(chart, onZoom) {
    const text = format.byUnit(chart.unit);
    const labels = chart.rows.map((row) => row.label);
    const columns = Math.max(...chart.rows.map((row) => row.values.length), 1);
    const cells = chart.rows.flatMap((row) =>
      row.values
        .map((value, column) => ({ x: (column + 0.5) * chart.step_s, y: row.label, v: value }))
        .filter((cell) => cell.v !== null),
    );
    return {
      type: "matrix",
      data: {
        datasets: [
          {
            label: chart.title,
            data: cells,
            backgroundColor: ({ raw }) => heat(raw ? raw.v / chart.top : 0),
            borderWidth: 0,
            width: ({ chart: drawn }) => widthOf(drawn, 0, chart.step_s) + 0.4,
            height: ({ chart: drawn }) => Math.max(1, (drawn.chartArea?.height ?? 0) / labels.length - 1),
          },
        ],
      },
      options: options(chart, {
        scales: {
          x: { ...timeAxis(columns * chart.step_s), grid: { display: false } },
          y: {
            type: "category",
            labels,
            offset: true,
            reverse: false,
            grid: { display: false },
            border: { display: false },
            ticks: { color: () => colours.muted, autoSkip: true, font: { size: 11 } },
          },
        },
        plugins: {
          zoom: zoom("x", onZoom),
          tooltip: {
            displayColors: false,
            callbacks: {
              title: (items) => items[0]?.raw.y ?? "",
              label: ({ raw }) => `after ${format.duration(raw.x - chart.step_s / 2)}: ${text(raw.v)}`,
            },
          },
        },
      }),
    };
  }

  const CONFIGS = { line: lineConfig, scatter: scatterConfig, bar: barConfig, heatmap: heatmapConfig };

  function height(chart) {
    if (chart.type === "bar") return 70 + BAR_HEIGHT * chart.labels.length + (chart.series.length > 1 ? 30 : 0);
    if (chart.type === "heatmap")
      return 40 + chart.rows.length * Math.min(20, Math.max(5, 640 / chart.rows.length));
    return chart.type === "scatter" ? 420 : 250 + (chart.lines.length > 1 ? 34 : 0);
  }

  const limitsOf = ({ scales: { x } }) => ({ min: x.min, max: x.max });

  function create(canvas, chart, onZoom) {
    const config = CONFIGS[chart.type](chart, onZoom);
    config.plugins = [background];
    const instance = new Chart(canvas, config);
    instance.gpuproofLimits = limitsOf(config.options);
    return instance;
  }

  // Show other values of a line chart in place: hidden lines stay hidden, and a chart that is zoomed stays zoomed.
  function change(instance, chart) {
    const { data, options: made } = lineConfig(chart);
    const { x } = instance.scales;
    const isWhole = x.min <= instance.gpuproofLimits.min && x.max >= instance.gpuproofLimits.max;
    const { datasets } = instance.data;
    if (datasets.length === data.datasets.length) data.datasets.forEach((dataset, at) => Object.assign(datasets[at], dataset));
    else instance.data.datasets = data.datasets;
    // A zoom sets the limits of the axis, and its reset restores those from before: they grow from there.
    if (isWhole) Object.assign(instance.options.scales.x, (instance.gpuproofLimits = limitsOf(made)));
    instance.options.plugins.annotation.annotations = made.plugins.annotation.annotations;
    instance.update("none");
  }

  return { change, create, height, secondsOf, unscaled };
})();
