"use strict";
// A context is chosen with a slider a resource, or with a click on a chart or map; everything else on the
// page is there without this script.
(() => {
  const data = JSON.parse(document.getElementById("contexts").textContent);
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const bytes = bytesOf(data.profiles);
  const band = data.band.map(bytesOf);
  const sizes = data.levels.map((axis) => axis.length);
  const explorer = document.querySelector(".explorer");
  const chosen = document.querySelector(".chosen");
  const answer = document.querySelector(".answer");
  const maps = [...document.querySelectorAll(".map")];
  const chartGroups = [...document.querySelectorAll(".charts")];
  const svgNS = "http://www.w3.org/2000/svg";
  const rows = new Map(data.place.map((place, row) => [place.join(), row]));
  const count = data.duration.length;

  const rowAt = (place) => data.place.length
    ? rows.get(place.join())
    : place.reduce((row, p, i) => row * sizes[i] + p, 0);
  const placeOf = (row) => {
    if (data.place.length) return [...data.place[row]];
    const place = [];
    for (let i = sizes.length - 1; i >= 0; i--) {
      place[i] = row % sizes[i];
      row = Math.floor(row / sizes[i]);
    }
    return place;
  };
  // as the page's own numbers: three significant digits, commas between thousands
  const rounded = (x) => {
    if (x === 0) return "0";
    if (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e15) return x.toExponential(2);
    const after = 2 - Math.floor(Math.log10(Math.abs(Number(x.toPrecision(3)))));
    return Number(x).toLocaleString("en-US", {
      minimumFractionDigits: Math.max(after, 0), maximumFractionDigits: Math.max(after, 0),
    });
  };
  const shown = (text, most) => {
    const clean = text.replace(/[\p{C}\p{Z}]+/gu, " ").trim();
    return clean.length <= most ? clean : clean.slice(0, most - 1) + "…";
  };
  const level = (i, p) => {
    const value = data.levels[i][p];
    const word = data.resources[i].labels[value - 1];
    return word === undefined ? String(Number(value.toPrecision(10))) : isolated(shown(word, 40));
  };
  const isolated = (text) => "\u2068" + text + "\u2069";
  const worded = (i, p) =>
    isolated(shown(data.resources[i].name, 30)) + " " + level(i, p) + data.resources[i].unit;

  const element = (tag, attributes, parent, text) => {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };

  const keyOf = (place, others) => others.map((i) => place[i]).join("-");
  const rest = data.chart
    ? data.levels.map((_, i) => i).filter((i) => i !== data.chart.across && i !== data.chart.panels)
    : [];
  // where most was measured, among what was measured but not itself measured, near the middle
  const middle = Math.floor(count / 2);
  let first = middle;
  for (let row = 0, least = Infinity; row < count; row++) {
    const away = data.chart && keyOf(placeOf(row), rest) !== data.chart.first;
    const between = data.measured[row] === "0" && data.extrapolated[row] === "0";
    const cost = (2 * Boolean(away) + !between) * count + Math.abs(row - middle);
    if (cost < least) [first, least] = [row, cost];
  }
  let place = placeOf(first);
  const sliders = [];

  const addSlider = (text, most, value, say, move) => {
    const label = element("label", {}, document.querySelector(".sliders"));
    label.append(isolated(text) + " ");
    const output = element("output", {}, label);
    const input = element("input", { type: "range", min: 0, max: most, step: 1 }, label);
    input.value = value();
    input.addEventListener("input", () => { move(Number(input.value)); show(); });
    sliders.push(() => {
      input.value = value();
      output.textContent = say();
      input.setAttribute("aria-valuetext", say());
    });
  };

  if (data.sparse) {
    let row = first;
    addSlider("context", count - 1, () => row, () => `${row + 1} of ${count}`,
      (value) => { row = value; place = placeOf(row); });
  } else {
    data.resources.forEach((resource, i) => {
      if (sizes[i] < 2) return;
      addSlider(shown(resource.name, 60), sizes[i] - 1, () => place[i],
        () => level(i, place[i]) + resource.unit, (value) => { place[i] = value; });
    });
  }

  const drawn = (tag, attributes, parent) => {
    const made = document.createElementNS(svgNS, tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };

  const charts = data.counters.map((name) => {
    const figure = element("figure", {}, chosen.querySelector(".panels"));
    const caption = element("figcaption", {}, figure);
    element("bdi", {}, caption, shown(name, 80));
    const unit = element("span", {}, caption);
    const chart = element("div", { class: "chart" }, figure);
    const ticks = element("div", { class: "ticks", "aria-hidden": "true" }, chart);
    const svg = document.createElementNS(svgNS, "svg");
    chart.append(svg);
    svg.setAttribute("viewBox", "0 0 100 100");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    const [grid, spread, path] = ["grid", "spread", "mean"].map((c) => drawn("path", { class: c }, svg));
    const ends = element("div", { class: "ends" }, chart);
    const times = [0, 0.5, 1].map(() => element("span", {}, ends));
    return { name, unit, ticks, svg, grid, spread, path, times };
  });

  // ticks at multiples of 1, 2 or 5 times a power of ten, up to the largest value
  const ticksTo = (top) => {
    const power = 10 ** Math.floor(Math.log10(top / 2));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => top / s <= 5);
    return Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => i * step);
  };

  const marks = [["here halo"], ["here"]].map(([name]) => {
    const rect = document.createElementNS(svgNS, "rect");
    rect.setAttribute("class", name);
    rect.setAttribute("width", 1);
    rect.setAttribute("height", 1);
    return rect;
  });

  const line = (values, from, points, top) => Array.from({ length: points }, (_, t) => {
    const y = 100 - (100 * values[from + t]) / (255 * top);
    return `${((100 * (t + 0.5)) / points).toFixed(1)} ${y.toFixed(1)}`;
  });

  const draw = (row) => {
    charts.forEach((chart, k) => {
      const at = row * data.counters.length + k;
      const peak = data.peak[row][k];
      // 5 % of room above what is drawn
      chart.path.setAttribute("d",
        `M${line(bytes, at * data.points, data.points, 1.05).join("L")}`);
      if (band.length) {
        const [low, high] = band.map((edge) => line(edge, at * data.points, data.points, 1.05));
        chart.spread.setAttribute("d", `M${high.join("L")}L${low.reverse().join("L")}z`);
      }
      const power = peak >= 1e5 || (peak > 0 && peak < 1e-2) ? Math.floor(Math.log10(peak)) : 0;
      chart.unit.textContent = ` per interval${power ? `, in 1e${power}` : ""}`;
      const ticks = peak > 0 ? ticksTo(peak * 1.05) : [0];
      const heights = ticks.map((tick) => peak > 0 ? 100 - (100 * tick) / (peak * 1.05) : 100);
      chart.grid.setAttribute("d", heights.map((y) => `M0 ${y.toFixed(1)}H100`).join(""));
      chart.ticks.replaceChildren();
      ticks.forEach((tick, i) => {
        const text = String(Number((tick / 10 ** power).toPrecision(6)));
        element("span", {}, chart.ticks, text).style.top = `${heights[i].toFixed(1)}%`;
      });
      chart.times.forEach((time, i) => {
        time.textContent = i ? `${rounded((data.duration[row] * i) / 2)}\u00a0s` : "0";
      });
      chart.svg.setAttribute("aria-label",
        `Mean profile of ${shown(chart.name, 40)} over ${rounded(data.duration[row])} s`);
    });
  };

  // the chosen context as a line in the chart of its level
  const rule = document.createElementNS(svgNS, "path");
  rule.setAttribute("class", "rule");
  const showChart = () => {
    for (const group of chartGroups) {
      group.classList.toggle("now", group.dataset.key === keyOf(place, rest));
    }
    rule.remove();
    if (!data.chart) return;
    const { across, panels, x } = data.chart;
    const panel = document.querySelector(
      `.charts.now [data-level="${panels === null ? 0 : place[panels]}"] .lines`);
    rule.setAttribute("d", `M${x[place[across]]} 0V1000`);
    panel?.append(rule);
  };

  const show = () => {
    for (const update of sliders) update();
    const row = rowAt(place);
    showChart();
    const key = keyOf(place, data.others);
    for (const map of maps) map.classList.toggle("now", map.dataset.key === key);
    const [across, up] = data.axes;
    const now = maps.find((map) => map.dataset.key === key);
    if (now) {
      for (const mark of marks) {
        mark.setAttribute("x", place[across]);
        mark.setAttribute("y", up === undefined ? 0 : sizes[up] - 1 - place[up]);
        now.querySelector("svg").append(mark);
      }
    }
    const where = data.resources.map((_, i) => worded(i, place[i])).join(", ");
    if (row === undefined) {
      answer.textContent = `${where}: not among the contexts that were generated.`;
      chosen.hidden = true;
      return;
    }
    chosen.hidden = false;
    let text = `${where}: ${rounded(data.duration[row])}\u00a0s on average`;
    if (data.bound.length) {
      text += `; a new run takes longer than ${rounded(data.bound[row])}\u00a0s with probability at most ${Number((100 * data.miscoverage).toPrecision(3))}\u00a0%`;
    }
    text += ".";
    if (data.bound.length && data.loose) {
      const i = data.resources.findIndex((resource) => resource.name === data.loose.resource);
      const value = data.levels[i][place[i]];
      if (data.loose.low <= value && value <= data.loose.high) {
        text += ` Bounds fail most among such ${isolated(shown(data.loose.resource, 30))}: ${(100 * data.loose.exceeded).toFixed(1)}\u00a0% of held-out runs took longer (${data.loose.over} of ${data.loose.runs}).`;
      }
    }
    if (data.measured[row] === "1") text += " Measured.";
    if (data.extrapolated[row] === "1") text += " Extrapolated: outside what was measured.";
    if (data.beyond[row] === "1") text += " The bound is a guess.";
    answer.textContent = text;
    draw(row);
  };

  for (const map of maps) {
    const svg = map.querySelector("svg");
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      const [across, up] = data.axes;
      const cell = (share, n) => Math.min(n - 1, Math.max(0, Math.floor(share * n)));
      place[across] = cell((event.clientX - box.left) / box.width, sizes[across]);
      if (up !== undefined) {
        place[up] = sizes[up] - 1 - cell((event.clientY - box.top) / box.height, sizes[up]);
      }
      show();
    });
  }

  for (const figure of document.querySelectorAll(".charts figure")) {
    const graph = figure.querySelector(".graph");
    graph.addEventListener("click", (event) => {
      const box = graph.getBoundingClientRect();
      const { across, panels, x } = data.chart;
      const at = (1000 * (event.clientX - box.left)) / box.width;
      const apart = x.map((one) => Math.abs(one - at));
      place[across] = apart.indexOf(Math.min(...apart));
      if (panels !== null) place[panels] = Number(figure.dataset.level);
      show();
    });
  }

  // paper opens nothing: what is closed is printed, and closed again
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const part of closed) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of closed) part.open = false; });

  document.documentElement.classList.add("js");
  explorer.hidden = false;
  show();
})();
