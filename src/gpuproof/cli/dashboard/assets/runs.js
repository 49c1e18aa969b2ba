"use strict";
// The list of runs: filters, and a choice of runs to compare.
function gpuproofRuns({ choice, load, offer, root, say, show }) {
  const { element } = gpuproofFigure;
  const REFRESH_MS = 10000;
  const MOST_COMPARED = 8;
  const SYMBOLS = { good: "✓", bad: "✗", warning: "!", neutral: "" };
  const STATES = ["InProgress", "Stopping", "Completed", "Failed", "Stopped"];
  const HEADERS = ["Run", "Status", "GPU", "Created", "Took", "Where", "Instance", "USD"];
  const chosen = new Set();
  const filter = { text: "", status: "", backend: "" };
  let known = null;

  const body = element("tbody");
  const remarks = element("div");
  const rest = element("p", { class: "muted" });
  const compare = element("button", { type: "button", onclick: openComparison }, "Compare");
  const search = element("input", { type: "search", oninput: ({ target }) => set("text", target.value.trim().toLowerCase()) });
  const backends = choice("Where", "backend", [["", "everywhere"]], "", ({ target }) => set("backend", target.value));
  const states = [["", "any"], ...STATES.map((name) => [name, name])];
  offer(
    element("label", {}, "Name", search),
    choice("Status", "status", states, "", ({ target }) => set("status", target.value)),
    backends,
    compare,
  );
  const head = [element("td", {}, ""), ...HEADERS.map((text) => element("th", { scope: "col" }, text))];
  const table = element("table", { id: "runs" }, element("thead", {}, element("tr", {}, ...head)), body);
  const frame = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, table);
  const list = [
    element("header", {}, element("h1", {}, "Runs")),
    element("main", {}, element("section", {}, remarks, frame, rest)),
  ];

  const pathOf = ({ backend, id }) => `/runs/${encodeURIComponent(backend)}/${encodeURIComponent(id)}`;

  function set(name, value) {
    filter[name] = value;
    draw();
  }

  function openComparison() {
    const runs = known.runs.filter((run) => chosen.has(pathOf(run))).map((run) => ["run", `${run.backend}/${run.id}`]);
    location.href = `/compare?${new URLSearchParams(runs.reverse())}`; // the oldest is the reference
  }

  const mark = (text, tone) => element("span", { class: tone }, SYMBOLS[tone] ? `${SYMBOLS[tone]} ${text}` : text);

  function row(run) {
    const path = pathOf(run);
    const box = element("input", {
      type: "checkbox",
      "aria-label": `Compare ${run.id}`,
      checked: chosen.has(path),
      disabled: !run.has_ended,
      title: run.has_ended ? null : "A run can be compared when it has ended",
      onchange({ target }) {
        if (target.checked) chosen.add(path);
        else chosen.delete(path);
        count();
      },
    });
    return element(
      "tr",
      { "data-path": path },
      element("td", {}, box),
      element("th", { scope: "row" }, element("a", { href: path }, run.id)),
      element("td", {}, mark(run.status_text, run.status_tone)),
      element("td", {}, run.verdict ? mark(run.verdict, run.verdict_tone) : "-"),
      element("td", {}, element("time", { datetime: run.created }, new Date(run.created).toLocaleString())),
      element("td", { class: "right" }, run.took),
      element("td", {}, run.backend),
      element("td", {}, run.instance ?? "-"),
      element("td", { class: "right" }, run.cost),
    );
  }

  function count() {
    const number = chosen.size;
    compare.disabled = number < 2 || number > MOST_COMPARED;
    compare.textContent = number ? `Compare ${number} runs` : "Compare";
    compare.title = compare.disabled ? `Choose 2 to ${MOST_COMPARED} runs that have ended` : "";
  }

  const matches = (run) =>
    (!filter.status || run.status === filter.status) &&
    (!filter.backend || run.backend === filter.backend) &&
    (!filter.text || `${run.id} ${run.job} ${run.instance ?? ""} ${run.verdict ?? ""}`.toLowerCase().includes(filter.text));

  // A row that has not changed stays, with its focus.
  function draw() {
    if (!known) return;
    const before = new Map([...body.children].map((made) => [made.dataset.path, made]));
    const shown = known.runs.filter(matches).map((run) => {
      const [made, text] = [before.get(pathOf(run)), JSON.stringify(run)];
      return made?.gpuproofText === text ? made : Object.assign(row(run), { gpuproofText: text });
    });
    if (shown.length !== body.childElementCount || shown.some((made, at) => made !== body.children[at]))
      body.replaceChildren(...shown);
    remarks.replaceChildren(
      ...known.problems.map((text) =>
        element("div", { class: "callout warning" }, element("strong", {}, "! incomplete"), element("span", {}, text)),
      ),
    );
    if (!known.runs.length) rest.textContent = "There are no runs. gpuproof run train.py starts one.";
    else if (!shown.length) rest.textContent = "No run matches.";
    else rest.textContent = known.older ? `${known.older} older runs are not listed: gpuproof ps --all` : "";
    count();
  }

  function showBackends() {
    const select = backends.querySelector("select");
    if (select.options.length === known.backends.length + 1) return;
    const names = known.backends.map((name) => element("option", { value: name }, name));
    select.replaceChildren(element("option", { value: "" }, "everywhere"), ...names);
    select.value = filter.backend;
  }

  async function refresh() {
    try {
      const found = await load("/api/runs");
      if (found.sections) show(found); // an error
      else {
        if (!frame.isConnected) root.replaceChildren(...list);
        known = found;
        showBackends();
        draw();
      }
      say("");
    } catch (error) {
      say(error.message);
    }
  }

  async function repeat() {
    if (!known || !document.hidden) await refresh();
    setTimeout(repeat, REFRESH_MS);
  }

  document.title = "Runs – GPUproof";
  count();
  repeat();
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
}
