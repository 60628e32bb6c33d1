// The address is the state of a view: `/CLUSTER/VIEW/NAME?filter=...`. Links are ordinary ones.
import { signal } from "/static/html.js";

function read() {
  const segments = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { cluster: segments[0] ?? "", view: segments[1] ?? "", name: segments[2] ?? "", query: new URLSearchParams(location.search) };
}

export const place = signal(read());

export function address(cluster, view, name, query) {
  const path = "/" + [cluster, view, name].filter(Boolean).map(encodeURIComponent).join("/");
  const text = new URLSearchParams(Object.entries(query ?? {}).filter(([, value]) => value !== "" && value != null)).toString();
  return text ? `${path}?${text}` : path;
}

export function go(to, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", to);
  place.value = read();
}

// Changes filters in the address without a new entry in the browser's history.
export function filter(changes) {
  const { cluster, view, name, query } = place.value;
  go(address(cluster, view, name, { ...Object.fromEntries(query), ...changes }), { replace: true });
}

addEventListener("popstate", () => { place.value = read(); });
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.target) return;
  if (link.origin !== location.origin || link.pathname.startsWith("/api/") || link.pathname.startsWith("/static/") || link.hasAttribute("download")) return;
  if (link.hash && link.pathname === location.pathname) return;
  event.preventDefault();
  go(link.pathname + link.search);
  document.getElementById("main")?.focus({ preventScroll: true });
  scrollTo(0, 0);
});
