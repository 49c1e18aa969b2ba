"use strict";
// Shows a page: builds the document from its JSON. All text becomes text nodes, never HTML.
const gpuproofReport = (() => {
  const { element, figure, instances } = gpuproofFigure;
  const LONG_TABLE = 14;
  const PRINTED_WIDTH = 690;
  const shown = new WeakMap();
  const WORDS = { good: "✓", bad: "✗", warning: "!", neutral: "i" };

  const symbol = (tone) => element("span", { class: "symbol", "aria-hidden": "true" }, WORDS[tone]);

  // A text that is one link can be clicked.
  function linked(text) {
    if (!/^https:\/\/\S+$/.test(text)) return text;
    return element("a", { href: text, target: "_blank", rel: "noopener noreferrer" }, text);
  }

  const BLOCKS = {
    text: (block) => element("p", { class: block.is_muted ? "muted" : "text" }, block.text),
    facts: (block) =>
      element(
        "dl",
        {},
        ...block.rows.map(([label, text]) => element("div", {}, element("dt", {}, label), element("dd", {}, linked(text)))),
      ),
    callout: (block) =>
      element(
        "div",
        { class: `callout ${block.tone}` },
        element("strong", {}, symbol(block.tone), block.word),
        element("span", {}, block.text),
      ),
    log(block) {
      const pre = element("pre", { tabindex: "0", role: "region", "aria-label": block.caption || "Log" }, block.text);
      return block.caption ? element("div", {}, element("h3", {}, block.caption), pre) : pre;
    },
    table,
    bars,
  };

  function table(block) {
    const right = new Set(block.right);
    const [marked, side] = [new Set(block.marked), (column) => (right.has(column) ? "right" : null)];
    const head = block.headers.map((text, column) => element("th", { scope: "col", class: side(column) }, text));
    const rows = block.rows.map((row, index) =>
      element(
        "tr",
        { class: marked.has(index) ? "marked" : null },
        ...row.map((text, column) => element("td", { class: side(column) }, linked(text))),
      ),
    );
    const frame = element(
      "div",
      {
        class: block.rows.length > LONG_TABLE ? "scroll long" : "scroll",
        tabindex: "0",
        role: "region",
        "aria-label": block.caption || block.headers.join(", "),
      },
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...head)),
        element("tbody", {}, ...rows),
      ),
    );
    if (block.is_collapsed)
      return element("details", {}, element("summary", {}, block.caption || `${block.rows.length} rows`), frame);
    return block.caption ? element("div", {}, element("h3", {}, block.caption), frame) : frame;
  }

  // Bars of one scale; the capacity is a frame, a range a paler part with limits.
  function bars(block) {
    const most = Math.max(...block.bars.flatMap((bar) => [bar.capacity, bar.high ?? bar.value]), 1);
    const share = (value) => `${(100 * value) / most}%`;
    const rows = block.bars.map((bar) => {
      const capacity = element("span", { class: "capacity" });
      capacity.style.width = share(bar.capacity);
      const value = element("span", { class: `value ${bar.tone}` });
      value.style.width = share(bar.value);
      const parts = [capacity, value];
      if (bar.low !== null && bar.high !== null) {
        const range = element("span", { class: "range" });
        range.style.left = share(bar.low);
        range.style.width = share(bar.high - bar.low);
        parts.push(range);
      }
      return element(
        "li",
        {},
        element("span", { class: "label" }, bar.label),
        element("span", { class: "track", "aria-hidden": "true" }, ...parts),
        element(
          "span",
          { class: "words" },
          bar.text,
          ...(bar.word ? [" ", element("strong", { class: bar.tone }, symbol(bar.tone), bar.word)] : []),
        ),
      );
    });
    const list = element("ul", { class: "bars" }, ...rows);
    return block.caption ? element("div", {}, element("h3", {}, block.caption), list) : list;
  }

  function header(page) {
    const parts = [element("h1", {}, page.title)];
    if (page.status)
      parts.push(element("p", { class: `status ${page.status.tone}` }, symbol(page.status.tone), page.status.word));
    return element(
      "header",
      {},
      element("div", { class: "title" }, ...parts),
      ...(page.subtitle ? [element("p", { class: "subtitle" }, page.subtitle)] : []),
    );
  }

  function navigation(page) {
    const links = page.sections.map((section, index) =>
      element("li", {}, element("a", { href: `#section-${index + 1}` }, section.heading)),
    );
    return element("nav", { "aria-label": "Sections" }, element("ul", {}, ...links));
  }

  // Build the page in an element, or build it anew there: what was zoomed and opened stays so.
  function show(root, page) {
    const before = root.childElementCount ? remembered(root) : null;
    gpuproofFigure.clear();
    gpuproofTheme.readColours();
    const parts = [];
    const main = element("main");
    page.sections.forEach((section, index) => {
      const made = element("section", { id: `section-${index + 1}` }, element("h2", {}, section.heading));
      for (const block of section.blocks) {
        const part = BLOCKS[block.type] ? { block, element: BLOCKS[block.type](block) } : { block, ...figure(block) };
        made.append(part.element);
        parts.push(part);
      }
      main.append(made);
    });
    root.replaceChildren(
      header(page),
      ...(page.sections.length > 2 ? [navigation(page)] : []),
      main,
      ...(page.footer ? [element("footer", {}, page.footer)] : []),
    );
    for (const { entry } of parts) entry?.draw();
    if (before) restore(root, before);
    shown.set(root, { page, parts });
  }

  const shape = (page) => JSON.stringify(page.sections.map(({ heading, blocks }) => [heading, blocks.map(({ type }) => type)]));
  const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

  // Show a later state of the page: what has changed is replaced, all else stays as it is. Other blocks build it anew.
  function update(root, page) {
    const before = shown.get(root);
    if (!before || shape(before.page) !== shape(page)) {
      show(root, page);
      return;
    }
    const outline = ({ title, status, subtitle }) => [title, status, subtitle];
    if (!isSame(outline(before.page), outline(page))) root.querySelector("header").replaceWith(header(page));
    page.sections
      .flatMap((section) => section.blocks)
      .forEach((block, index) => {
        const part = before.parts[index];
        if (!isSame(part.block, block)) change(part, block);
        part.block = block;
      });
    before.page = page;
  }

  function change(part, block) {
    const pre = block.type === "log" && part.element.querySelector("pre");
    if (part.entry) part.entry.change(block);
    else if (pre) {
      // A reader at the end of the log stays there.
      const isAtEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
      pre.textContent = block.text;
      if (isAtEnd) pre.scrollTop = pre.scrollHeight;
    } else {
      const frame = (node) => (node.matches(".scroll") ? node : node.querySelector(".scroll"));
      const { scrollLeft = 0, scrollTop = 0 } = frame(part.element) ?? {};
      const made = BLOCKS[block.type](block);
      if (made.localName === "details") made.open = part.element.open;
      part.element.replaceWith(made);
      part.element = made;
      frame(made)?.scrollTo(scrollLeft, scrollTop);
    }
  }

  const detailsOf = (root) =>
    [...root.querySelectorAll("details")].map((details, index) => [
      `${details.closest("section")?.id} ${details.firstChild.textContent} ${index}`,
      details,
    ]);

  function remembered(root) {
    return {
      open: detailsOf(root).flatMap(([key, details]) => (details.open ? [key] : [])),
      zoomed: new Map(
        instances
          .filter(({ instance }) => instance.isZoomedOrPanned())
          .map(({ chart, instance }) => [chart.title, { min: instance.scales.x.min, max: instance.scales.x.max }]),
      ),
    };
  }

  function restore(root, { open, zoomed }) {
    for (const [key, details] of detailsOf(root)) if (open.includes(key)) details.open = true;
    for (const { chart, instance } of instances)
      if (zoomed.has(chart.title)) instance.zoomScale("x", zoomed.get(chart.title), "none");
  }

  function repaint() {
    gpuproofTheme.readColours();
    for (const { instance } of instances) instance.update("none");
  }

  // Paper is white and of another width.
  function print(isPrinting) {
    document.documentElement.classList.toggle("printing", isPrinting);
    for (const { instance, height } of instances) {
      if (isPrinting) instance.resize(PRINTED_WIDTH, height);
      else instance.resize();
    }
    repaint();
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  return { show, update, charts: instances, format: gpuproofFormat };
})();
