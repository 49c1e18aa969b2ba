"use strict";
// The pages of the dashboard: fetches their content, and shows it with `report.js`. All text becomes text nodes.
(() => {
  const { element } = gpuproofFigure;
  const RECONNECT_MS = 3000;
  const [root, controls, state] = ["report", "controls", "state"].map((id) => document.getElementById(id));
  const { page, formKey } = document.body.dataset;
  const query = new URLSearchParams(location.search);

  // What is loaded or lost, for screen readers, too; empty if all is well.
  function say(text) {
    state.textContent = text;
    state.hidden = !text;
  }

  function offer(...parts) {
    controls.replaceChildren(...parts);
    controls.hidden = false;
  }

  async function load(url) {
    let answer;
    try {
      answer = await fetch(url);
    } catch {
      throw new Error("The dashboard does not answer: it has ended, or the connection is lost.");
    }
    const type = answer.headers.get("Content-Type") ?? "";
    if (!type.startsWith("application/json"))
      throw new Error(answer.status === 403 ? "Not admitted: open the address that gpuproof dashboard printed." : answer.statusText);
    return answer.json();
  }

  function show(content) {
    document.title = `${content.title} – GPUproof`;
    gpuproofReport.update(root, content);
  }

  async function showOnce(url) {
    try {
      show(await load(url));
      say("");
    } catch (error) {
      say(error.message);
    }
  }

  const choice = (label, name, values, chosen, onchange) =>
    element(
      "label",
      {},
      label,
      element(
        "select",
        { name, onchange },
        ...values.map(([value, text]) => element("option", { value, selected: value === chosen }, text)),
      ),
    );

  // One run: its page now, and whenever it changes.
  function run() {
    const api = `/api${location.pathname}`;
    const parts = [element("a", { href: `${location.pathname}/report.html`, download: "" }, "Download the report")];
    const stop = formKey ? element("button", { type: "button", class: "danger", onclick: ask }, "Stop the run …") : null;
    if (stop) parts.push(stop);
    offer(...parts);
    let isFirst = true;
    connect();

    function connect() {
      const source = new EventSource(`${api}/events`);
      source.addEventListener("page", ({ data }) => {
        show(JSON.parse(data));
        say("");
        if (!isFirst) return;
        isFirst = false;
        for (const pre of root.querySelectorAll("pre")) pre.scrollTop = pre.scrollHeight;
      });
      source.addEventListener("end", () => {
        source.close();
        stop?.remove();
        root.dataset.ended = "true";
      });
      source.onerror = () => {
        source.close();
        say("The connection to the dashboard is lost; trying again …");
        setTimeout(connect, RECONNECT_MS);
      };
    }

    // A question in the page: it has a name, takes the focus, and Escape answers no.
    function ask() {
      const id = decodeURIComponent(location.pathname.split("/").pop());
      const dialog = element(
        "dialog",
        { "aria-labelledby": "question" },
        element("h2", { id: "question" }, `Stop ${id}?`),
        element("p", {}, "Its script gets SIGTERM, and SIGKILL two minutes later. Artifacts and verdict are kept."),
        element(
          "form",
          { method: "dialog" },
          element("button", { value: "no", autofocus: true }, "No"),
          element("button", { value: "yes", class: "danger" }, "Stop it"),
        ),
      );
      dialog.addEventListener("close", () => {
        if (dialog.returnValue === "yes") send();
        dialog.remove();
      });
      document.body.append(dialog);
      dialog.showModal();
    }

    async function send() {
      stop.disabled = true;
      say("Stopping …");
      try {
        const answer = await fetch(`${api}/stop`, { method: "POST", headers: { "X-GPUproof-Form-Key": formKey } });
        if (answer.ok) return;
        const found = await answer.json();
        say(found.error ?? found.sections?.[0].blocks[0].text ?? answer.statusText);
      } catch {
        say("The dashboard does not answer; the run may not have been stopped.");
      }
      stop.disabled = false;
    }
  }

  // Costs, with what they are grouped by.
  function costs() {
    const by = query.get("by") ?? "job";
    const since = query.get("since") ?? "30d";
    const send = ({ target }) => target.form.requestSubmit();
    const groups = [["job", "job"], ["day", "day"], ["type", "instance type"], ["backend", "service"]];
    const ages = [["1d", "day"], ["7d", "week"], ["30d", "30 days"], ["90d", "90 days"], ["365d", "year"]];
    offer(
      element("form", { method: "get", action: "/costs" }, choice("By", "by", groups, by, send), choice("Last", "since", ages, since, send)),
    );
    showOnce(`/api/costs?${new URLSearchParams({ by, since })}`);
  }

  const PAGES = {
    runs: () => gpuproofRuns({ choice, load, offer, root, say, show }),
    run,
    costs,
    compare: () => showOnce(`/api/compare${location.search}`),
    plans: () => showOnce("/api/plans"),
  };
  PAGES[page]();
})();
