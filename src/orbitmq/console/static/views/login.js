import { html, useState } from "/static/html.js";
import { post, session } from "/static/api.js";
import { t } from "/static/words.js";
import { Problem } from "/static/ui/notice.js";

const FAILED = {
  SIGN_ON_STATE: () => [t("This login was begun elsewhere, or too long ago"), t("Log in again, in one browser window.")],
  SIGN_ON_REFUSED: () => [t("The login was refused or given up"), t("Log in again; the list of refused logins has the provider's reason.")],
  SIGN_ON_TOKEN: () => [t("The provider's answer is not valid"), t("An admin finds the reason among the refused logins.")],
  SIGN_ON_NO_ROLE: () => [t("You have no role for this console"), t("Ask an admin to give you one at the provider.")],
  SIGN_ON_UNREACHABLE: () => [t("The provider cannot be asked"), t("Try again later; the list of refused logins has the reason.")],
};

// The provider's answer led back here: the reason stands in the address, once.
function failure() {
  const code = new URLSearchParams(location.search).get("failed");
  if (!Object.hasOwn(FAILED, code)) return null;
  const [title, advice] = FAILED[code]();
  return { message: title, problem: { status: 401, code, title, advice } };
}

export function Login() {
  const [error, setError] = useState(failure);
  const [busy, setBusy] = useState(false);
  async function submit(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    setBusy(true);
    setError(null);
    try {
      session.value = await post("/api/login", { user: form.get("user"), password: form.get("password") });
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }
  return html`<main id="main" class="login"><form class="card" onSubmit=${submit}>
    <img src="/static/icon.svg" alt="" width="48" height="48" /><h1>OrbitMQ</h1>
    ${session.value.signOn && html`<a class="button primary" href=${`/api/sign-on?to=${encodeURIComponent(location.search.includes("failed=") ? "/" : location.pathname + location.search)}`}>${t("Log in at {host}", { host: session.value.signOn })}</a>`}
    ${!session.value.passwordLogin && html`<${Problem} error=${error} />`}
    ${session.value.passwordLogin && html`
    <div class="field"><label for="user">${t("User")}</label><input id="user" name="user" autocomplete="username" required autofocus /></div>
    <div class="field"><label for="password">${t("Password")}</label><input id="password" name="password" type="password" autocomplete="current-password" required /></div>
    <${Problem} error=${error} />
    <button class=${session.value.signOn ? "" : "primary"} type="submit" disabled=${busy}>${t("Log in")}</button>`}
  </form></main>`;
}
