// A modal dialog with a form: Escape closes it, focus goes back to where it was, an error stays in it.
import { html, useEffect, useRef, useState } from "/static/html.js";
import { t } from "/static/words.js";
import { Problem } from "/static/ui/notice.js";

export function Dialog({ title, action, danger, disabled, onSubmit, onClose, children }) {
  const element = useRef(null);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await onSubmit();
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  }
  return html`<dialog ref=${element} aria-labelledby="dialog-title" onClose=${onClose} onCancel=${onClose}>
    <form onSubmit=${submit}>
      <header><h2 id="dialog-title">${title}</h2></header>
      <div class="dialog-body">${children}<${Problem} error=${error} /></div>
      <footer>
        <button type="button" onClick=${onClose}>${t("Cancel")}</button>
        <button type="submit" class=${danger ? "danger" : "primary"} disabled=${busy || disabled}>${busy ? t("Working…") : action}</button>
      </footer>
    </form>
  </dialog>`;
}
