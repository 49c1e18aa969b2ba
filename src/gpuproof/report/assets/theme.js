"use strict";
// Colours, dashes and patterns: what tells lines and bars apart, in light and dark mode and on paper.
const gpuproofTheme = (() => {
  const DASHES = [[], [9, 4], [2, 3], [11, 3, 2, 3], [18, 4], [6, 2, 1, 2, 1, 2], [1, 5], [16, 3, 5, 3]];
  const POINTS = ["circle", "triangle", "rect", "rectRot", "cross", "star", "crossRot", "dash"];
  const colours = {};

  // The colours of the style sheet, which depend on dark mode and on printing.
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["ink", "muted", "line", "surface", "good", "bad", "warning", "neutral", "heat", "band"])
      colours[name] = read(name);
    colours.series = DASHES.map((_, index) => read(`series-${index}`));
    colours.heatLow = read("heat-low");
  }

  const series = (index) => colours.series[index % colours.series.length];
  const mix = (hex, alpha) => `${hex}${Math.round(255 * alpha).toString(16).padStart(2, "0")}`;

  const background = {
    id: "background",
    beforeDraw(chart) {
      chart.ctx.save();
      chart.ctx.fillStyle = colours.surface;
      chart.ctx.fillRect(0, 0, chart.width, chart.height);
      chart.ctx.restore();
    },
  };

  // A fill that is told from others without colours.
  function pattern(index, context) {
    const kind = index % DASHES.length;
    if (kind === 0) return series(index);
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.fillStyle = series(index);
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = pen.fillStyle = colours.surface;
    pen.lineWidth = 1.5;
    const lines = {
      1: [[0, 8, 8, 0], [-2, 2, 2, -2], [6, 10, 10, 6]],
      3: [[0, 4, 8, 4]],
      4: [[0, 0, 8, 8], [0, 8, 8, 0]],
      5: [[0, 0, 8, 8], [-2, 6, 2, 10], [6, -2, 10, 2]],
      6: [[4, 0, 4, 8]],
      7: [[4, 0, 4, 8], [0, 4, 8, 4]],
    };
    if (kind === 2) pen.fillRect(3, 3, 2.5, 2.5);
    for (const [x1, y1, x2, y2] of lines[kind] ?? []) {
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      pen.stroke();
    }
    return context.createPattern(tile, "repeat");
  }

  // A colour between the lowest and the highest.
  function heat(share) {
    const part = (hex, at) => parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16);
    const clamped = Math.min(Math.max(share, 0), 1);
    const mixed = [0, 1, 2].map((at) =>
      Math.round(part(colours.heatLow, at) + clamped * (part(colours.heat, at) - part(colours.heatLow, at))),
    );
    return `rgb(${mixed.join(" ")})`;
  }

  return { DASHES, POINTS, background, colours, heat, mix, pattern, readColours, series };
})();
