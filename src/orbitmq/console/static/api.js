// Requests to the console's own API. Errors are `ApiError` with the server's problem.
import { signal } from "/static/html.js";
import { t } from "/static/words.js";

export const session = signal(null);
// Brokers of the cluster in view that do not answer: pages show what the others say.
export const silent = signal("");

export class ApiError extends Error {
  constructor(problem) {
    super(problem.title);
    this.problem = problem;
  }
}

export async function request(method, path, body, options = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") {
    headers["Content-Type"] = "application/json";
    if (session.value?.csrfToken) headers["X-CSRF-Token"] = session.value.csrfToken;
  }
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal: options.signal, credentials: "same-origin",
      body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError({ status: 0, code: "NO_CONSOLE", title: t("The console does not answer"), advice: t("Check that it runs.") });
  }
  const text = await response.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = { status: response.status, code: "FAILED", title: text.slice(0, 300) || response.statusText, advice: t("Something between the browser and the console answered: look at proxies on the way.") };
  }
  if (!response.ok) {
    if (response.status === 401 && path !== "/api/login") session.value = { ...session.value, user: null };
    throw new ApiError(value ?? { status: response.status, code: "FAILED", title: response.statusText });
  }
  if (path.startsWith("/api/clusters/")) silent.value = (response.headers.get("X-Silent-Brokers") ?? "").split(",").map(decodeURIComponent).join(", ");
  return value;
}

export const get = (path, options) => request("GET", path, null, options);
export const post = (path, body) => request("POST", path, body);
export const put = (path, body) => request("PUT", path, body);
export const remove = (path, body) => request("DELETE", path, body);

export const inCluster = (cluster, rest) => `/api/clusters/${encodeURIComponent(cluster)}${rest}`;
export const part = (text) => encodeURIComponent(text);

const ROLES = { viewer: 1, operator: 2, admin: 3 };
export const may = (role) => (ROLES[session.value?.role] ?? 0) >= ROLES[role];
