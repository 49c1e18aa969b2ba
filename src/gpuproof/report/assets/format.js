"use strict";
// Formats numbers as gpuproof.util.humanize does; a test compares the two.
const gpuproofFormat = (() => {
  const digits = (value, count) => String(Number(value.toPrecision(count)));
  const grouped = (value, decimals) =>
    value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

  function bytes(count) {
    if (Math.round(count) < 1024) return `${count.toFixed(0)} B`;
    for (const unit of ["KiB", "MiB", "GiB"]) {
      count /= 1024;
      if (Number(count.toFixed(1)) < 1024) return `${count.toFixed(1)} ${unit}`;
    }
    return `${(count / 1024).toFixed(1)} TiB`;
  }

  function duration(seconds) {
    if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    if (whole < 120) return `${whole} s`;
    const minutes = Math.floor(whole / 60);
    if (minutes < 120) return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  }

  function seconds(value) {
    if (value >= 100) return duration(value);
    return Number((value * 1000).toPrecision(3)) < 1000 ? `${digits(value * 1000, 3)} ms` : `${digits(value, 3)} s`;
  }

  function usd(amount) {
    return amount >= 0.1 || amount === 0 ? `$${grouped(amount, 2)}` : `$${amount.toFixed(4)}`;
  }

  function number(value) {
    return Math.abs(value) >= 1000 ? grouped(value, 0) : digits(value, 4);
  }

  const units = {
    bytes,
    seconds,
    usd,
    number,
    percent: (value) => `${value.toFixed(0)}%`,
    watts: (value) => `${grouped(value, 0)} W`,
    celsius: (value) => `${value.toFixed(0)} °C`,
  };

  // The steps between marks of a time axis, in seconds.
  const STEPS = [
    ...[1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4],
    ...[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
    ...[1, 2, 5, 10, 15, 30].map((minutes) => 60 * minutes),
    ...[1, 2, 3, 6, 12].map((hours) => 3600 * hours),
    ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => 86400 * days),
  ];

  const MAGNITUDES = Array.from({ length: 24 }, (_, index) => 10 ** (index - 9)).flatMap((power) =>
    [1, 2, 5].map((digit) => Number((digit * power).toPrecision(1))),
  );
  const DURATIONS = [
    ...MAGNITUDES.filter((value) => value <= 10),
    ...[30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000, 86400],
    ...MAGNITUDES.filter((days) => days >= 2).map((days) => 86400 * days),
  ];

  function timeStep(span, marks) {
    return STEPS.find((step) => span / step <= marks) ?? STEPS[STEPS.length - 1];
  }

  // A mark of a time axis: `20 ms`, `30 s`, `5 min`, `1:05 h`, `6 h`, `2 d 6 h`.
  function timeMark(value, step) {
    if (value === 0) return "0";
    if (step < 0.1) return `${digits(value * 1000, 6)} ms`;
    if (step < 1) return `${digits(value, 6)} s`;
    const whole = Math.round(value);
    const two = (part) => String(part).padStart(2, "0");
    const [days, hours, minutes, rest] = [
      Math.floor(whole / 86400),
      Math.floor(whole / 3600),
      Math.floor(whole / 60) % 60,
      whole % 60,
    ];
    const day = hours >= 48 ? `${days} d ` : "";
    const hour = day ? hours % 24 : hours;
    if (step < 60 && (whole >= 120 || rest % step)) {
      if (whole < 120) return `${whole} s`;
      return hours ? `${day}${hour}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)} min`;
    }
    if (step < 60) return `${whole} s`;
    if (step < 3600 && whole < 7200) return `${Math.floor(whole / 60)} min`;
    if (step < 3600) return `${day}${hour}:${two(minutes)} h`;
    if (hours >= 48 && hour === 0) return `${days} d`;
    return `${day}${hour} h`;
  }

  return { ...units, DURATIONS, MAGNITUDES, duration, timeStep, timeMark, byUnit: (unit) => units[unit] ?? number };
})();
