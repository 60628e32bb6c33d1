// Values that stay fresh while a page is open and seen.
import { useEffect, useLayoutEffect, useRef, useState } from "/static/html.js";
import { get, session } from "/static/api.js";
import { t } from "/static/words.js";

// Asks `path` now and every `seconds`; null asks nothing. Gives { value, error, loading, reload }.
export function useLive(path, seconds = 10) {
  const [state, setState] = useState({ value: null, error: null, path: null });
  const [round, setRound] = useState(0);
  // Asks before the page is painted: an ordinary effect would wait for that.
  useLayoutEffect(() => {
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

// The problem that ended a stream; where the session is over, the page asks for a login.
function problemOf(event) {
  const problem = JSON.parse(event.data);
  if (problem.status === 401) session.value = { ...session.value, user: null };
  return problem;
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
        source.addEventListener("problem", (event) => { source.close(); problemOf(event); });
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

// A task of the server that tells of itself by events until one is `done`. Gives { value, error, running, stop, restart }.
export function useTask(path, onValue) {
  const [state, setState] = useState({ value: null, error: null, running: false });
  const [round, setRound] = useState(0);
  const open = useRef(null);
  const latest = useRef(onValue);
  latest.current = onValue;
  const close = () => { open.current?.close(); open.current = null; };
  useEffect(() => {
    if (!path) return undefined;
    setState({ value: null, error: null, running: true });
    const source = new EventSource(path);
    open.current = source;
    source.onmessage = (event) => {
      const value = JSON.parse(event.data);
      if (value.done) close();
      latest.current?.(value);
      setState({ value, error: null, running: !value.done });
    };
    source.addEventListener("problem", (event) => {
      close();
      const problem = problemOf(event);
      setState((before) => ({ ...before, error: { problem }, running: false }));
    });
    // A browser would begin the whole task anew.
    source.onerror = () => {
      if (open.current !== source) return;
      close();
      setState((before) => ({ ...before, error: { problem: { code: "NO_CONSOLE", title: t("The console does not answer"), advice: t("Check that it runs.") } }, running: false }));
    };
    return close;
  }, [path, round]);
  return { ...state, stop: () => { close(); setState((before) => ({ ...before, running: false })); }, restart: () => setRound((n) => n + 1) };
}

// Events of `path` for as long as `on` holds: `onValue` for each; gives the problem that ended them. A closed stream is not read on.
export function useStream(path, on, onValue) {
  const [error, setError] = useState(null);
  const latest = useRef(onValue);
  latest.current = onValue;
  useEffect(() => {
    setError(null);
    if (!path || !on) return undefined;
    const source = new EventSource(path);
    source.onmessage = (event) => latest.current(JSON.parse(event.data));
    source.addEventListener("problem", (event) => { source.close(); setError({ problem: problemOf(event) }); });
    return () => source.close();
  }, [path, on]);
  return error;
}
