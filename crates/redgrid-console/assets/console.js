// Keeps a page up to date: takes changes from its stream, counts times up and down, and says when
// the page is stale. Without this script all pages work, and do not update themselves.

const body = document.body;
const status = document.getElementById("status");
const live = body.dataset.live;

/** Pause before a new try after the server has ended the stream: 3 s. */
const RETRY_MS = 3000;

/** The clock of the console minus that of this machine, in milliseconds. */
let ahead = Number(body.dataset.now) - Date.now();
let source = null;
let retry = 0;
/** Whether the stream is broken, so that nothing is counted. */
let isBroken = false;
/** Since when it is broken, and why. */
let staleSince = null;
let reason = "";

const AWAY = "the console does not answer.";

/** This page with its query, as the login knows it. */
const here = (location.pathname.split("/").pop() || "overview") + location.search;

const two = (n) => String(n).padStart(2, "0");

/** A duration with its two largest units, as the server writes it. */
function duration(ms) {
  const all = Math.max(0, Math.round(ms / 1000));
  const days = Math.floor(all / 86400);
  const hours = Math.floor(all / 3600) % 24;
  const minutes = Math.floor(all / 60) % 60;
  const seconds = all % 60;
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${seconds} s`;
  return `${seconds} s`;
}

/** Writes all times on the page, unless the page is stale: then nothing counts. */
function tick(root = document) {
  if (isBroken || (root === document && status?.querySelector(".stale"))) return;
  const now = Date.now() + ahead;
  const write = (time, text) => {
    if (!time.title) time.title = time.dateTime;
    if (time.textContent !== text) time.textContent = text;
  };
  for (const time of root.querySelectorAll("time[data-ago]")) {
    write(time, `${duration(now - Number(time.dataset.ago))} ago`);
  }
  for (const time of root.querySelectorAll("time[data-since]")) {
    write(time, `for ${duration(now - Number(time.dataset.since))}`);
  }
  for (const time of root.querySelectorAll("time[data-until]")) {
    const left = Number(time.dataset.until) - now;
    write(time, left > 0 ? duration(left) : "over");
  }
}

/** What the server sent for an element, to compare it with what it sends next. */
const sent = new WeakMap();

function setContent(element, html) {
  if (sent.get(element) === html) return;
  sent.set(element, html);
  // What has the focus, or is open, stays.
  if (element.contains(document.activeElement) && document.activeElement !== element) {
    const place = focusPlace(element);
    element.innerHTML = html;
    tick(element);
    place();
    return;
  }
  element.innerHTML = html;
  tick(element);
}

/** Returns a function that gives the focus back to the link at the same address, or the summary. */
function focusPlace(element) {
  const { activeElement } = document;
  const href = activeElement.getAttribute("href");
  const isSummary = activeElement.tagName === "SUMMARY";
  return () => {
    const links = [...element.querySelectorAll("a")];
    const same = isSummary
      ? element.querySelector("summary")
      : links.find((link) => href !== null && link.getAttribute("href") === href);
    same?.focus({ preventScroll: true });
  };
}

function row(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.querySelector("tr");
}

/** Changes the cells of a row that differ. An open detail stays open. */
function changeRow(old, html) {
  const fresh = row(html);
  if (old.cells.length !== fresh.cells.length) {
    old.replaceWith(fresh);
    tick(fresh);
    return;
  }
  for (let at = 0; at < fresh.cells.length; at++) {
    const wasOpen = old.cells[at].querySelector("details")?.open;
    setContent(old.cells[at], fresh.cells[at].innerHTML);
    const details = old.cells[at].querySelector("details");
    if (wasOpen && details) details.open = true;
  }
}

function changeTable(table, change) {
  const known = new Map([...table.rows].map((one) => [one.id, one]));
  for (const [id, html] of Object.entries(change.rows)) {
    const old = known.get(id);
    if (old) {
      changeRow(old, html);
    } else {
      const fresh = row(html);
      tick(fresh);
      known.set(id, fresh);
    }
  }
  const order = new Set(change.order);
  for (const [id, one] of known) if (!order.has(id)) one.remove();
  let place = table.firstElementChild;
  for (const id of change.order) {
    const one = document.getElementById(id) ?? known.get(id);
    if (!one) continue;
    if (one === place) place = place.nextElementSibling;
    else table.insertBefore(one, place);
  }
}

function take(message) {
  const change = JSON.parse(message);
  ahead = change.now - Date.now();
  isBroken = false;
  reason = "";
  body.classList.remove("broken");
  for (const [id, html] of Object.entries(change.parts ?? {})) {
    const element = document.getElementById(id);
    if (element) setContent(element, html);
  }
  for (const [id, rows] of Object.entries(change.tables ?? {})) {
    const table = document.getElementById(id);
    if (table) changeTable(table, rows);
  }
  body.classList.toggle("stale-data", Boolean(status?.querySelector(".stale")));
  tick();
}

/** Says since when the page is stale, and why. */
function broken(text, link) {
  if (isBroken && text === reason) return;
  // The reason of an answer stays until there is another answer.
  if (isBroken && text === AWAY && reason !== AWAY) return;
  if (!isBroken) staleSince = new Date(Date.now() + ahead);
  const since = [staleSince.getUTCHours(), staleSince.getUTCMinutes(), staleSince.getUTCSeconds()].map(two).join(":");
  reason = text;
  isBroken = true;
  body.classList.add("broken");
  sent.delete(status);
  const strong = document.createElement("strong");
  strong.className = "stale";
  strong.textContent = `stale since ${since} UTC`;
  status.replaceChildren(strong, `: ${text} `);
  if (link) {
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = "Log in";
    status.append(anchor);
  }
}

function close() {
  clearTimeout(retry);
  source?.close();
  source = null;
}

function open() {
  close();
  const opened = new EventSource(live);
  source = opened;
  opened.onmessage = (event) => take(event.data);
  // The server ends each stream after an hour, or with the login. The page is not stale by that.
  opened.addEventListener("end", () => source === opened && open());
  opened.onerror = async () => {
    broken(AWAY);
    if (opened.readyState !== EventSource.CLOSED || source !== opened) return;
    // The answer was not a stream, so the browser does not try again.
    source = null;
    const answer = await fetch(live, { method: "HEAD" }).catch(() => null);
    if (answer?.status === 401) broken("the login has ended.", `login?next=${encodeURIComponent(here)}`);
    else if (answer?.status === 403) broken("the console refuses the request.");
    else if (answer?.status === 503) broken("too many pages are open.");
    if (source === null && !document.hidden) retry = setTimeout(open, RETRY_MS);
  };
}

if (live && status) {
  // A hidden page needs nothing. Browsers allow few streams to one host.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  setInterval(() => tick(), 1000);
  tick();
  if (!document.hidden) open();
}
