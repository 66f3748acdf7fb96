"use strict";
(() => {
  const root = document.documentElement;
  const card = document.getElementById("card");
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const CODE = new Set(["at", "source line"]);
  const panes = new Map();

  // A pane is one view; what is seen of its picture is a rectangle of the picture's own coordinates.
  function pane(section) {
    const svg = section.querySelector("svg");
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const nodes = [...svg.querySelectorAll("[data-node]")];
    const edges = [...svg.querySelectorAll(".edge")];
    const seen = { x: 0, y: 0, scale: 1 };

    function show() {
      const { clientWidth: w, clientHeight: h } = svg;
      svg.setAttribute("viewBox", `${seen.x} ${seen.y} ${w / seen.scale} ${h / seen.scale}`);
    }
    function fit() {
      const { clientWidth: w, clientHeight: h } = svg;
      if (!w || !h) return;
      seen.scale = Math.min(w / width, h / height, 1.25);
      seen.x = (width - w / seen.scale) / 2;
      seen.y = (height - h / seen.scale) / 2;
      show();
    }
    function zoom(factor, px = svg.clientWidth / 2, py = svg.clientHeight / 2) {
      const scale = Math.min(Math.max(seen.scale * factor, 0.05), 6);
      seen.x += px / seen.scale - px / scale;
      seen.y += py / seen.scale - py / scale;
      seen.scale = scale;
      show();
    }
    function move(dx, dy) {
      seen.x -= dx / seen.scale;
      seen.y -= dy / seen.scale;
      show();
    }
    function reveal(node) {
      const at = node.getBoundingClientRect();
      const frame = svg.getBoundingClientRect();
      const dx = Math.max(frame.left + 24 - at.left, 0) || Math.min(frame.right - 24 - at.right, 0);
      const dy = Math.max(frame.top + 24 - at.top, 0) || Math.min(frame.bottom - 24 - at.bottom, 0);
      if (dx || dy) move(dx, dy);
    }

    svg.querySelector(".paper").remove();
    svg.setAttribute("role", "group");
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const frame = svg.getBoundingClientRect();
      const step = event.deltaMode === 1 ? 16 : 1;
      zoom(Math.exp(-event.deltaY * step * 0.0015), event.clientX - frame.left, event.clientY - frame.top);
    }, { passive: false });
    drag(svg, move, zoom);
    return { view: section.dataset.view, section, svg, nodes, edges, fit, zoom, move, reveal };
  }

  // One pointer moves the picture; two also make it larger or smaller.
  function drag(svg, move, zoom) {
    const down = new Map();
    const spread = () => {
      const [a, b] = [...down.values()];
      return Math.hypot(a.x - b.x, a.y - b.y) || 1;
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    });
    svg.addEventListener("pointermove", (event) => {
      const last = down.get(event.pointerId);
      if (!last) return;
      const before = down.size === 2 ? spread() : 0;
      const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
      if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      down.set(event.pointerId, { x: event.clientX, y: event.clientY });
      move(dx / down.size, dy / down.size);
      if (!before) return;
      const frame = svg.getBoundingClientRect();
      const [a, b] = [...down.values()];
      zoom(spread() / before, (a.x + b.x) / 2 - frame.left, (a.y + b.y) / 2 - frame.top);
    });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, (event) => down.delete(event.pointerId));
  }

  // All edges on the way to a node, or, the other way round, from it.
  function reach(edges, start, from, to) {
    const found = new Set();
    const todo = [start];
    const met = new Set(todo);
    while (todo.length) {
      const here = todo.pop();
      for (const edge of edges) {
        if (edge.dataset[from] !== here) continue;
        found.add(edge);
        if (!met.has(edge.dataset[to])) todo.push(edge.dataset[to]);
        met.add(edge.dataset[to]);
      }
    }
    return found;
  }

  function ask({ view, svg, nodes, edges }, node) {
    const id = node.dataset.node;
    const near = [...reach(edges, id, "source", "target"), ...reach(edges, id, "target", "source")];
    const ends = new Set([id, ...near.flatMap((edge) => [edge.dataset.source, edge.dataset.target])]);
    for (const edge of edges) edge.classList.toggle("near", near.includes(edge));
    for (const other of nodes) other.classList.toggle("near", ends.has(other.dataset.node));
    svg.classList.add("asked");
    tell(...facts[view][Number(id)]);
    place(node.getBoundingClientRect());
  }

  function leave() {
    for (const { svg } of panes.values()) svg.classList.remove("asked");
    card.hidden = true;
  }

  function tell(title, told) {
    const list = document.createElement("dl");
    for (const [name, text] of told) {
      const [term, value] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = name;
      value.textContent = text;
      value.classList.toggle("code", CODE.has(name));
      list.append(term, value);
    }
    const heading = document.createElement("h2");
    heading.textContent = title;
    card.replaceChildren(heading, list);
    card.hidden = false;
  }

  // Beside the node where there is room, else where it hides least.
  function place(at) {
    const { offsetWidth: w, offsetHeight: h } = card;
    const right = at.right + 14 + w <= innerWidth ? at.right + 14 : at.left - 14 - w;
    const left = Math.min(Math.max(right, 8), innerWidth - w - 8);
    card.style.left = `${Math.max(left, 8)}px`;
    card.style.top = `${Math.max(Math.min(at.top, innerHeight - h - 8), 8)}px`;
  }

  function turnTo(view) {
    root.dataset.view = view;
    for (const pane of panes.values()) pane.section.hidden = pane.view !== view;
    for (const button of document.querySelectorAll("[data-show]")) {
      button.setAttribute("aria-pressed", String(button.dataset.show === view));
    }
    leave();
    panes.get(view).fit();
  }

  const current = () => panes.get(root.dataset.view);
  const deeds = {
    in: () => current().zoom(1.25), out: () => current().zoom(0.8), fit: () => current().fit(),
    left: () => current().move(60, 0), right: () => current().move(-60, 0),
    up: () => current().move(0, 60), down: () => current().move(0, -60), leave,
  };
  const keys = {
    "+": "in", "=": "in", "-": "out", 0: "fit", Escape: "leave",
    ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
  };

  for (const section of document.querySelectorAll("section")) panes.set(section.dataset.view, pane(section));
  for (const pane of panes.values()) {
    for (const node of pane.nodes) {
      const title = node.querySelector("title");
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", title.textContent);
      title.remove(); // the card tells it, and better
      node.addEventListener("pointerenter", (event) => event.buttons || ask(pane, node));
      node.addEventListener("pointerleave", leave);
      node.addEventListener("focus", () => {
        if (node.matches(":focus-visible")) pane.reveal(node);
        ask(pane, node);
      });
      node.addEventListener("blur", leave);
    }
  }
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => turnTo(button.dataset.show));
  }
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => deeds[button.dataset.do]());
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    deeds[keys[event.key]]();
  });
  addEventListener("resize", () => current().fit());
  turnTo(root.dataset.view);
  root.dataset.ready = "yes";
})();
