// Values that stay fresh while a page is open and seen.
import { useEffect, useRef, useState } from "/static/html.js";
import { get } from "/static/api.js";

// Asks `path` now and every `seconds`; null asks nothing. Gives { value, error, loading, reload }.
export function useLive(path, seconds = 10) {
  const [state, setState] = useState({ value: null, error: null, path: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const stop = new AbortController();
    let timer = 0;
    async function ask() {
      if (document.visibilityState === "visible") {
        try {
          const value = await get(path, { signal: stop.signal });
          setState({ value, error: null, path });
        } catch (error) {
          if (error.name === "AbortError") return;
          setState((before) => ({ value: before.path === path ? before.value : null, error, path }));
        }
      }
      if (seconds && !stop.signal.aborted) timer = setTimeout(ask, seconds * 1000);
    }
    ask();
    return () => { stop.abort(); clearTimeout(timer); };
  }, [path, seconds, round]);
  const fresh = state.path === path;
  return { value: fresh ? state.value : null, error: fresh ? state.error : null, loading: Boolean(path) && !fresh, reload: () => setRound((n) => n + 1) };
}

// Server-sent events of `path`: `onValue` for each. Closed while the page is hidden.
export function useEvents(path, onValue) {
  const latest = useRef(onValue);
  latest.current = onValue;
  useEffect(() => {
    if (!path) return undefined;
    let source = null;
    const follow = () => {
      if (document.visibilityState === "visible" && !source) {
        source = new EventSource(path);
        source.onmessage = (event) => latest.current(JSON.parse(event.data));
      } else if (document.visibilityState !== "visible" && source) {
        source.close();
        source = null;
      }
    };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => { document.removeEventListener("visibilitychange", follow); source?.close(); };
  }, [path]);
}
