import { html, useState } from "/static/html.js";
import { post, session } from "/static/api.js";
import { t } from "/static/words.js";
import { Problem } from "/static/ui/notice.js";

export function Login() {
  const [error, setError] = useState(null);
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
    <div class="field"><label for="user">${t("User")}</label><input id="user" name="user" autocomplete="username" required autofocus /></div>
    <div class="field"><label for="password">${t("Password")}</label><input id="password" name="password" type="password" autocomplete="current-password" required /></div>
    <${Problem} error=${error} />
    <button class="primary" type="submit" disabled=${busy}>${t("Log in")}</button>
  </form></main>`;
}
