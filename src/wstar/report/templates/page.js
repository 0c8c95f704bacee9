"use strict";
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const darkness = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const settings = { responsive: true, displaylogo: false, scrollZoom: false, modeBarButtons: [["toImage"]] };
  const frames = page.frames, labels = page.labels;
  let scale = "log", shown = Math.max(0, frames.length - 1), playing = 0;

  // colours are named in the figures and looked up here, so that one style sheet serves light and dark
  function themed(value, look = getComputedStyle(document.documentElement)) {
    if (typeof value === "string") {
      const name = /^var\((--[\w-]+)\)$/.exec(value);
      return name ? look.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map(item => themed(item, look));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, look)]));
  }

  const solid = Boolean(document.createElement("canvas").getContext("webgl"));

  // dots and rings keep their proportion to a small sphere
  const fitted = sizes => sizes.map(size => size * Math.min(1, document.getElementById("sphere").clientWidth / 560));

  function draw(id) {
    if (id === "sphere" && !solid) {
      const note = "This browser offers no WebGL, so the sphere cannot be drawn. The table below holds what it shows.";
      document.getElementById(id).textContent = note;
      return;
    }
    const figure = themed(page.figures[id]);
    figure.layout.font = { ...figure.layout.font, family: getComputedStyle(document.body).fontFamily };
    // on a touch screen a finger over a chart scrolls the page
    if (touch && figure.layout.xaxis) figure.layout.dragmode = false;
    if (figure.layout.meta === "steps" && scale === "linear") {
      Object.assign(figure.layout.xaxis, { type: "linear", dtick: null, tickformat: "~s" });
    }
    const config = id === "sphere" ? { ...settings, displayModeBar: false } : settings;
    if (id === "sphere") {
      for (const trace of figure.data) if (trace.marker) trace.marker.size = fitted(trace.marker.size);
    }
    return Plotly.react(document.getElementById(id), figure.data, figure.layout, config);
  }

  function drawAll() {
    const drawn = Object.keys(page.figures).map(draw);
    if (frames.length) show(shown);
    if (frames.length && solid) placeLabels();
    return Promise.all(drawn);
  }

  const between = (a, b, part) => a === null || b === null ? (part < 0.5 ? a : b) : a + part * (b - a);

  // the dots at frame `at`; between two whole frames they glide in a straight line
  function show(at) {
    shown = at;
    describe(Math.round(at));
    if (!solid) return;
    const before = frames[Math.floor(at)], after = frames[Math.ceil(at)], part = at - Math.floor(at);
    const mixed = name => before[name].map((value, k) => between(value, after[name][k], part));
    const mass = mixed("mass"), sphere = document.getElementById("sphere");
    const students = sphere.data.findIndex(trace => trace.name === "students");
    const [positive, negative] = themed(["var(--accent)", "var(--contrast)"]);
    Plotly.restyle(sphere, {
      x: [mixed("x")], y: [mixed("y")], z: [mixed("z")], customdata: [mass], "marker.size": [fitted(mixed("size"))],
      "marker.color": [mass.map(value => value < 0 ? negative : positive)],
    }, [students]);
  }

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const unit = a => a.map(part => part / Math.hypot(...a));
  const across = (a, normal) => a.map((part, k) => part - dot(a, normal) * normal[k]);

  // labels stand outward of their rings as seen on the screen, above those in the middle of it
  function placeLabels() {
    const sphere = document.getElementById("sphere"), { eye, up } = sphere._fullLayout.scene.camera;
    const towards = unit([eye.x, eye.y, eye.z]), above = unit(across([up.x, up.y, up.z], towards));
    const rings = sphere.data.find(trace => trace.name === "teachers");
    const beside = rings.x.map((x, k) => {
      const ring = [x, rings.y[k], rings.z[k]], flat = across(ring, towards);
      const outward = Math.hypot(...flat) > 0.12 ? unit(flat) : above;
      return ring.map((part, axis) => part + 0.17 * outward[axis]);
    });
    const labels = sphere.data.findIndex(trace => trace.name === "labels");
    const [x, y, z] = [0, 1, 2].map(axis => beside.map(point => point[axis]));
    Plotly.restyle(sphere, { x: [x], y: [y], z: [z] }, [labels]);
  }

  function describe(frame) {
    const label = labels[frame];
    const slider = document.getElementById("epoch-slider");
    slider.value = frame;
    slider.setAttribute("aria-valuetext", label.epoch);
    for (const cell of document.querySelectorAll("[data-shown]")) cell.textContent = label[cell.dataset.shown];
  }

  function stop() {
    cancelAnimationFrame(playing);
    playing = 0;
    setPlayButton(false);
  }

  function play() {
    const from = shown >= frames.length - 1 ? 0 : Math.floor(shown), start = performance.now();
    const glide = 550, hold = 350, last = frames.length - 1;
    setPlayButton(true);
    function tick(now) {
      const beat = Math.max(0, now - start) / (glide + hold), whole = Math.floor(beat);
      const part = calm ? 0 : Math.max(0, ((beat - whole) * (glide + hold) - hold) / glide);
      const at = Math.min(last, from + whole + part * part * (3 - 2 * part));
      if (at !== shown) show(at);
      if (at >= last) return stop();
      playing = requestAnimationFrame(tick);
    }
    playing = requestAnimationFrame(tick);
  }

  function setPlayButton(on) {
    const button = document.getElementById("epoch-play");
    button.setAttribute("aria-pressed", String(on));
    button.querySelector(".word").textContent = on ? "Pause" : "Play";
  }

  function turn(event) {
    const angle = { ArrowLeft: -0.12, ArrowRight: 0.12 }[event.key] || 0;
    const lift = { ArrowUp: 0.12, ArrowDown: -0.12 }[event.key] || 0;
    if (!angle && !lift) return;
    event.preventDefault();
    const sphere = document.getElementById("sphere"), { eye } = sphere._fullLayout.scene.camera;
    const length = Math.hypot(eye.x, eye.y, eye.z), around = Math.atan2(eye.y, eye.x) + angle;
    const height = Math.max(-1.5, Math.min(1.5, Math.asin(eye.z / length) + lift));
    const flat = length * Math.cos(height);
    const moved = { x: flat * Math.cos(around), y: flat * Math.sin(around), z: length * Math.sin(height) };
    Plotly.relayout(sphere, { "scene.camera.eye": moved, "scene.camera.up": { x: 0, y: 0, z: 1 } });
  }

  function rescale(chosen) {
    scale = chosen;
    for (const button of document.querySelectorAll("[data-scale]")) {
      button.setAttribute("aria-pressed", String(button.dataset.scale === chosen));
    }
    for (const id of Object.keys(page.figures)) if (page.figures[id].layout.meta === "steps") draw(id);
  }

  // what a figure shows, one row a point: a matrix is spelled out, a background surface is left out
  function numbers(figure) {
    const rows = [];
    figure.data.forEach((trace, k) => {
      if (trace.type === "surface" || trace.type === "mesh3d") return;
      const name = trace.name || `line ${k + 1}`;
      if (trace.type === "heatmap") {
        trace.z.forEach((line, i) => line.forEach((z, j) => rows.push([name, trace.x[j], trace.y[i], z])));
        return;
      }
      const error = trace.error_y || {}, length = Math.max((trace.x || []).length, (trace.y || []).length);
      for (let i = 0; i < length; i++) {
        const at = values => values ? values[i] : undefined;
        rows.push([name, at(trace.x), at(trace.y), at(trace.z), at(error.array), at(error.arrayminus || error.array)]);
      }
    });
    const heading = ["series", "x", "y", "z", "error_up", "error_down"];
    const used = heading.map((_, k) => rows.some(row => row[k] !== undefined && row[k] !== null));
    return [heading, ...rows].map(row => heading.flatMap((_, k) => used[k] ? [cell(row[k])] : []).join(",")).join("\n") + "\n";
  }

  const plainText = markup => new DOMParser().parseFromString(markup, "text/html").body.textContent;

  function cell(value) {
    if (value === undefined || value === null) return "";
    if (typeof value === "number") return String(value);
    // a spreadsheet takes a text that begins so for a formula
    const text = plainText(String(value)).replace(/^[=+\-@\t\r]/, "'$&");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function offerNumbers(id) {
    const link = document.createElement("a"), label = document.getElementById(id).getAttribute("aria-label") || id;
    link.className = "numbers";
    link.textContent = "numbers (CSV)";
    link.setAttribute("aria-label", `Numbers of the figure: ${label} (CSV)`);
    link.download = `${id}.csv`;
    link.href = "#";
    // made when asked for: a page holds many figures
    link.addEventListener("click", () => {
      const address = URL.createObjectURL(new Blob([numbers(page.figures[id])], { type: "text/csv" }));
      link.href = address;
      setTimeout(() => { URL.revokeObjectURL(address); link.href = "#"; }, 10000);
    });
    document.getElementById(id).after(link);
  }

  for (const id of Object.keys(page.figures)) if (document.getElementById(id)) offerNumbers(id);
  drawAll().then(() => { document.documentElement.dataset.drawn = "yes"; });
  darkness.addEventListener("change", drawAll);
  for (const button of document.querySelectorAll("[data-scale]")) {
    button.addEventListener("click", () => rescale(button.dataset.scale));
  }
  if (frames.length) {
    const slider = document.getElementById("epoch-slider");
    slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
    document.getElementById("epoch-play").addEventListener("click", () => playing ? stop() : play());
    const sphere = document.getElementById("sphere");
    sphere.addEventListener("keydown", turn);
    if (solid) sphere.on("plotly_relayout", placeLabels);
  }
})();
