"use strict";
// Draws the page from the JSON in #data. Text from runs is only ever set as text, never as HTML.
(() => {
  const $ = (id) => document.getElementById(id);
  const COLOURS = ["#0b6bcb", "#d9480f", "#2b8a3e", "#9c36b5", "#c2255c", "#0c8599", "#a06a00", "#5f3dc4", "#5c940d", "#868e96"];
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 6]];
  const colour = (run) => COLOURS[run % COLOURS.length];
  const dash = (run) => DASHES[Math.floor(run / COLOURS.length) % DASHES.length];

  let data = JSON.parse($("data").textContent);
  const hidden = new Set();  // names of runs that are switched off
  const charts = new Map();  // metric -> {plot, figure, readout}
  let sorted = { column: -1, descending: false };

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }
  const nameOf = (run) => data.runs[run][0];
  const isShown = (run) => !hidden.has(nameOf(run)) && matches(run);
  const matches = (run) => data.runs[run].join(" ").toLowerCase().includes($("filter").value.trim().toLowerCase());

  // ---- the table of runs

  function order() {
    const runs = data.runs.map((_, run) => run);
    if (sorted.column < 0) return runs;
    const value = (run) => data.runs[run][sorted.column];
    const compare = (a, b) => {
      const [x, y] = [Number(value(a)), Number(value(b))];
      if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
      return value(a).localeCompare(value(b), undefined, { numeric: true });
    };
    runs.sort(compare);
    return sorted.descending ? runs.reverse() : runs;
  }

  function heading(title, column) {
    const button = element("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      sorted = { column, descending: sorted.column === column && !sorted.descending };
      drawTable();
      $("table").querySelectorAll("th button")[column].focus();
    });
    const cell = element("th", { scope: "col" }, button);
    if (sorted.column === column) cell.setAttribute("aria-sort", sorted.descending ? "descending" : "ascending");
    return cell;
  }

  function drawTable() {
    const head = element("tr", {}, ...data.headers.map(heading), element("th", { scope: "col" }, "files"));
    const body = order().filter(matches).map((run) => {
      const box = element("input", { type: "checkbox", id: `run-${run}` });
      box.checked = !hidden.has(nameOf(run));
      box.addEventListener("change", () => {
        box.checked ? hidden.delete(nameOf(run)) : hidden.add(nameOf(run));
        drawCharts();
      });
      const chip = element("span", { class: "chip", "aria-hidden": "true" });
      chip.style.borderTopColor = colour(run);
      chip.style.borderTopStyle = dash(run).length ? "dashed" : "solid";
      const label = element("label", { for: `run-${run}` }, chip, nameOf(run));
      const cells = data.runs[run].slice(1).map((text) =>
        element("td", Number.isNaN(Number(text)) ? { class: text } : { class: "number" }, text));
      const links = element("td");
      for (const [name, address] of Object.entries(data.files[run])) links.append(element("a", { href: encodeURI(address) }, name), " ");
      return element("tr", {}, element("td", {}, box, " ", label), ...cells, links);
    });
    $("table").replaceChildren(
      element("caption", { class: "hint" }, "What the runs have in common is left out"),
      element("thead", {}, head), element("tbody", {}, ...body));
    $("count").textContent = `${body.length} of ${data.runs.length} runs`;
  }

  // ---- the curves

  function smoothed(values, weight) {
    if (!weight) return values;
    let mean = null;
    return values.map((value) => {
      if (value === null) return null;
      mean = mean === null ? value : weight * mean + (1 - weight) * value;
      return mean;
    });
  }

  const short = (value) => (value === null || value === undefined ? "-" : String(Number(value.toPrecision(5))));

  function columns(metric) {
    const weight = Number($("smoothing").value);
    const { x, y } = data.curves[metric];
    const positive = $("log").checked ? (values) => values.map((v) => (v !== null && v > 0 ? v : null)) : (v) => v;
    return [x, ...y.map((values) => positive(smoothed(values, weight)))];
  }

  function options(metric, width, readout) {
    const style = getComputedStyle(document.documentElement);
    const [ink, line] = [style.getPropertyValue("--ink"), style.getPropertyValue("--line")];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    return {
      width, height: 260, legend: { show: false }, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: { distr: $("log").checked ? 3 : 1 } },
      axes: [{ ...axis }, { ...axis, size: 64, values: (_, splits) => splits.map(short) }],
      series: [{ label: "step" }, ...data.runs.map((_, run) => ({
        label: nameOf(run), stroke: colour(run), dash: dash(run), width: 1.5, spanGaps: true,
        show: isShown(run), points: { show: data.curves[metric].x.length < 40 },
      }))],
      hooks: { setCursor: [(plot) => read(plot, metric, readout)] },
    };
  }

  function read(plot, metric, readout) {
    const at = plot.cursor.idx;
    if (at === null || at === undefined) return;
    const values = data.runs.map((_, run) => run)
      .filter((run) => isShown(run) && plot.data[run + 1] && plot.data[run + 1][at] !== null)
      .map((run) => `${nameOf(run)} ${short(plot.data[run + 1][at])}`);
    readout.textContent = `step ${plot.data[0][at]}: ${values.slice(0, 12).join(", ") || "no value"}`;
  }

  function summary(metric) {
    const last = (values) => { for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i]; return null; };
    const ends = data.runs.map((_, run) => run).filter(isShown)
      .map((run) => [nameOf(run), last(data.curves[metric].y[run])]).filter(([, value]) => value !== null);
    return `Chart of ${metric} by step. Last values: ${ends.slice(0, 12).map(([name, value]) => `${name} ${short(value)}`).join(", ") || "none"}.`;
  }

  function addChart(metric) {
    const readout = element("output", { "aria-live": "polite" });
    const place = element("div");
    const figure = element("figure", { tabindex: "0", role: "group", "data-metric": metric }, element("figcaption", {}, metric), place, readout);
    $("charts").append(figure);
    const plot = new uPlot(options(metric, figure.clientWidth - 18, readout), columns(metric), place);
    figure.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (move === undefined) return;
      event.preventDefault();
      const x = plot.data[0];
      const at = Math.min(x.length - 1, Math.max(0, (plot.cursor.idx ?? (move > 0 ? -1 : x.length)) + move));
      plot.setCursor({ left: plot.valToPos(x[at], "x"), top: 10 });
    });
    charts.set(metric, { plot, figure, readout });
  }

  function drawCharts() {
    for (const metric of Object.keys(data.curves)) {
      if (!charts.has(metric)) addChart(metric);
      const { plot, figure } = charts.get(metric);
      const zoom = { min: plot.scales.x.min, max: plot.scales.x.max };
      const x = data.curves[metric].x;
      const isZoomed = zoom.min !== null && zoom.max !== null && (zoom.min > x[0] || zoom.max < plot.data[0][plot.data[0].length - 1]);
      plot.batch(() => {
        plot.setData(columns(metric), !isZoomed);
        if (isZoomed) plot.setScale("x", zoom);
        data.runs.forEach((_, run) => { if (plot.series[run + 1].show !== isShown(run)) plot.setSeries(run + 1, { show: isShown(run) }); });
      });
      figure.setAttribute("aria-label", summary(metric));
    }
    if (!charts.size) $("charts").replaceChildren(element("p", { class: "hint" }, "No run has measured anything yet."));
  }

  function redrawCharts() {
    for (const { plot } of charts.values()) plot.destroy();
    charts.clear();
    $("charts").replaceChildren();
    drawCharts();
  }

  // ---- lineage and environment

  function branch(nodes) {
    return element("ul", { class: "lineage" }, ...nodes.map((node) => {
      const item = element("li", {}, element("div", {}, node.title));
      if (node.edge) item.append(element("div", { class: "edge" }, node.edge));
      if (node.children.length) item.append(branch(node.children));
      return item;
    }));
  }

  function drawRest() {
    $("forest").replaceChildren(branch(data.forest));
    const { headers, rows } = data.environment;
    $("environments").replaceChildren(
      element("thead", {}, element("tr", {}, ...headers.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, text))))));
    const wrong = Object.entries(data.problems).map(([name, problem]) => `${name}: ${problem}`);
    $("about").textContent = [`${data.runs.length} runs, as of ${data.made}`, ...wrong].join("; ");
  }

  function draw() { drawTable(); drawCharts(); drawRest(); }

  // ---- what the user does

  $("filter").addEventListener("input", () => { drawTable(); drawCharts(); });
  $("smoothing").addEventListener("input", drawCharts);
  $("log").addEventListener("change", redrawCharts);
  $("reset").addEventListener("click", redrawCharts);
  $("all").addEventListener("click", () => { data.runs.forEach((_, run) => { if (matches(run)) hidden.delete(nameOf(run)); }); drawTable(); drawCharts(); });
  $("none").addEventListener("click", () => { data.runs.forEach((_, run) => { if (matches(run)) hidden.add(nameOf(run)); }); drawTable(); drawCharts(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redrawCharts(); } });

  async function refresh() {
    try {
      const answer = await fetch("data.json", { cache: "no-store" });
      const fresh = await answer.json();
      const sameRuns = JSON.stringify(fresh.runs.map((row) => row[0])) === JSON.stringify(data.runs.map((row) => row[0]));
      data = fresh;
      sameRuns ? draw() : (drawTable(), redrawCharts(), drawRest());
    } catch (error) {
      $("about").textContent = `The server does not answer (${error.message}); this is the state of ${data.made}`;
    }
    setTimeout(refresh, data.refresh * 1000);
  }

  draw();
  if (data.refresh) setTimeout(refresh, data.refresh * 1000);
})();
