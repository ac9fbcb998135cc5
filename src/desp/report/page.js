"use strict";
(() => {
  const data = JSON.parse(document.getElementById("chains").textContent);
  const home = document.getElementById("chain-panels");
  if (!data || !home) return;

  const button = document.getElementById("chain-play");
  const slider = document.getElementById("chain-step");
  const status = document.getElementById("chain-status");
  const last = Math.max(...data.examples.map((example) => example.frames.length)) - 1;
  const SECONDS = 6;
  const TRAIL = 5;
  const MINUS = "\u2212";

  let frame = last;
  let started = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const text = (value) => (value === null || value === undefined ? "\u2013" : value.toPrecision(3).replace(/-/g, MINUS));
  const at = (example, index) => Math.min(index, example.frames.length - 1);

  const panels = data.examples.map((example) => {
    const figure = document.createElement("figure");
    figure.className = "chain";
    const caption = document.createElement("figcaption");
    const label = document.createElement("b");
    label.textContent = example.label;
    const energy = document.createElement("span");
    caption.append(label, energy);
    const points = document.createElement("canvas");
    points.setAttribute("role", "img");
    const curve = document.createElement("canvas");
    curve.setAttribute("role", "img");
    const known = example.energies.filter((value) => value !== null);
    points.setAttribute("aria-label", `Elements of the set for ${example.label}, moving from the start of the chain to the prediction.`);
    curve.setAttribute("aria-label", known.length
      ? `Energy of the chain for ${example.label}, from ${text(known[0])} to ${text(known[known.length - 1])}.`
      : `Energy of the chain for ${example.label} is not known.`);
    figure.append(caption, points, curve);
    home.append(figure);
    const panel = { example, energy, points, curve, image: null };
    if (example.image) {
      panel.image = new Image();
      panel.image.addEventListener("load", () => show(frame));
      panel.image.src = example.image;
    }
    return panel;
  });

  function open(canvas, ratio) {
    const width = canvas.clientWidth || 180;
    const height = Math.round(width * ratio);
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    return { pen, width, height };
  }

  function place(row, width, height) {
    if (data.features === 1) return [(row[0] / data.grid) * width, height / 2];
    const across = data.rowFirst ? row[1] : row[0];
    const down = data.rowFirst ? row[0] : data.grid - row[1];
    return [(across / data.grid) * width, (down / data.grid) * height];
  }

  function dot(pen, x, y, radius, height) {
    pen.beginPath();
    if (data.features === 1) pen.rect(x - radius / 2, height * 0.25, radius, height * 0.5);
    else pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fill();
  }

  function drawBoxes(panel, rows, pen, width, height) {
    if (panel.image && panel.image.complete) pen.drawImage(panel.image, 0, 0, width, height);
    const across = (value) => (value / data.grid) * width;
    const down = (value) => (value / data.grid) * height;
    pen.strokeStyle = colour("--prediction");
    pen.lineWidth = 1.6;
    for (const [left, top, right, bottom, present] of rows) {
      pen.globalAlpha = Math.max(0.08, present / 100);
      pen.strokeRect(across(left), down(top), across(right - left), down(bottom - top));
    }
    pen.globalAlpha = 1;
  }

  function drawPoints(panel, index) {
    const { pen, width, height } = open(panel.points, data.features === 1 ? 0.35 : 1);
    pen.fillStyle = colour("--quiet");
    pen.fillRect(0, 0, width, height);
    if (data.boxes) return drawBoxes(panel, panel.example.frames[index], pen, width, height);
    pen.fillStyle = colour("--prediction");
    for (let back = Math.min(TRAIL, index); back >= 0; back -= 1) {
      const rows = panel.example.frames[index - back];
      const radius = Math.max(1.2, Math.min(4, 30 / Math.sqrt(rows.length + 1))) * (back ? 0.6 : 1);
      for (const row of rows) {
        const [x, y] = place(row, width, height);
        pen.globalAlpha = Math.max(0.08, row[row.length - 1] / 100) * (back ? 0.3 * (1 - back / (TRAIL + 1)) : 1);
        dot(pen, x, y, radius, height);
      }
    }
    pen.globalAlpha = 1;
  }

  function drawCurve(panel, index) {
    const { pen, width, height } = open(panel.curve, 0.28);
    const { energies, steps } = panel.example;
    const known = energies.filter((value) => value !== null);
    if (!known.length) return;
    const low = Math.min(...known);
    const size = Math.max(...known) - low || 1;
    const end = steps[steps.length - 1] || 1;
    const spot = (i) => [4 + (steps[i] / end) * (width - 8), height - 5 - ((energies[i] - low) / size) * (height - 12)];
    if (data.stochasticSteps !== null && data.stochasticSteps < end) {
      pen.fillStyle = colour("--tint");
      const from = 4 + (data.stochasticSteps / end) * (width - 8);
      pen.fillRect(from, 0, width - from, height);
    }
    pen.strokeStyle = colour("--muted");
    pen.lineWidth = 1.3;
    pen.beginPath();
    let drawing = false;
    energies.forEach((value, i) => {
      if (value === null) { drawing = false; return; }
      if (drawing) pen.lineTo(...spot(i)); else pen.moveTo(...spot(i));
      drawing = true;
    });
    pen.stroke();
    if (energies[index] === null) return;
    pen.fillStyle = colour("--prediction");
    pen.beginPath();
    pen.arc(...spot(index), 3.5, 0, 2 * Math.PI);
    pen.fill();
  }

  function phase(step) {
    if (data.stochasticSteps === null) return "";
    if (data.stochasticSteps === 0) return "descent, no noise";
    return step <= data.stochasticSteps ? "sampling, with noise" : "descent, no noise";
  }

  function show(index) {
    frame = index;
    slider.value = String(index);
    for (const panel of panels) {
      const own = at(panel.example, index);
      panel.energy.textContent = `E = ${text(panel.example.energies[own])}`;
      drawPoints(panel, own);
      drawCurve(panel, own);
    }
    const longest = panels.find((panel) => panel.example.frames.length === last + 1).example;
    const step = longest.steps[index];
    const words = [`step ${step}`, phase(step)].filter(Boolean).join(": ");
    status.textContent = words;
    slider.setAttribute("aria-valuetext", words);
  }

  function stop() {
    started = null;
    button.textContent = "Play";
  }

  function tick(now) {
    if (started === null) return;
    const pace = last / (SECONDS * 1000);
    const index = Math.min(last, Math.floor(started.from + (now - started.time) * pace));
    if (index !== frame) show(index);
    if (index >= last) stop(); else requestAnimationFrame(tick);
  }

  function play() {
    if (frame >= last) show(0);
    started = { time: performance.now(), from: frame };
    button.textContent = "Pause";
    requestAnimationFrame(tick);
  }

  slider.max = String(last);
  button.addEventListener("click", () => (started === null ? play() : stop()));
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  window.addEventListener("resize", () => show(frame));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(frame));
  show(last);

  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (!still && "IntersectionObserver" in window && last > 0) {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      play();
    }, { threshold: 0.6 });
    observer.observe(home);
  }
})();
