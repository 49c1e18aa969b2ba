"use strict";
// Phases, events and limits on a chart over time.
const gpuproofMarks = (() => {
  const { colours, mix } = gpuproofTheme;

  function annotations(chart) {
    const found = {};
    chart.phases.forEach((phase, index) => {
      found[`phase-${index}`] = {
        type: "box",
        drawTime: "beforeDatasetsDraw",
        xMin: phase.start,
        xMax: phase.end,
        borderWidth: 0,
        backgroundColor: () => (index % 2 ? mix(colours.band, 0.1) : mix(colours.band, 0.28)),
        label: {
          display: ({ chart: drawn }) => widthOf(drawn, phase.start, phase.end) > 7 * phase.label.length,
          content: phase.label,
          position: { x: "center", y: "end" },
          color: () => colours.muted,
          font: { size: 11, weight: "normal" },
          padding: 2,
        },
      };
    });
    chart.events.forEach((event, index) => {
      found[`event-${index}`] = {
        type: "line",
        xMin: event.seconds,
        xMax: event.seconds,
        borderColor: () => mix(colours[event.tone], 0.9),
        borderWidth: event.tone === "neutral" ? 1 : 1.5,
        borderDash: event.tone === "neutral" ? [3, 3] : [],
        label: {
          display: ({ chart: drawn }) => hasRoom(drawn, chart.events, index),
          content: event.label.length > 28 ? `${event.label.slice(0, 27)}…` : event.label,
          rotation: -90,
          position: "end",
          yAdjust: 14,
          color: () => (event.tone === "neutral" ? colours.muted : colours[event.tone]),
          backgroundColor: () => mix(colours.surface, 0.82),
          font: { size: 11, weight: "normal" },
          padding: { x: 3, y: 1 },
        },
      };
    });
    if (chart.limit !== null)
      found.limit = {
        type: "line",
        yMin: chart.limit,
        yMax: chart.limit,
        borderColor: () => colours.bad,
        borderWidth: 1.5,
        borderDash: [6, 4],
        label: {
          display: Boolean(chart.limit_label),
          content: chart.limit_label,
          position: "start",
          yAdjust: -9,
          color: () => colours.bad,
          backgroundColor: () => mix(colours.surface, 0.82),
          font: { size: 11, weight: "normal" },
          padding: 2,
        },
      };
    return found;
  }

  function widthOf(drawn, from, to) {
    const axis = drawn.scales?.x;
    return axis ? Math.abs(axis.getPixelForValue(to) - axis.getPixelForValue(from)) : 0;
  }

  // Whether the label of an event has room beside the labels of the events before it.
  function hasRoom(drawn, events, index) {
    const axis = drawn.scales?.x;
    if (!axis) return false;
    let last = -Infinity;
    for (let at = 0; at <= index; at++) {
      const pixel = axis.getPixelForValue(events[at].seconds);
      const fits = pixel - last >= (drawn.width < 500 ? 36 : 16) && pixel >= axis.left - 1 && pixel <= axis.right + 1;
      if (at === index) return fits;
      if (fits) last = pixel;
    }
    return false;
  }

  return { annotations, widthOf };
})();
