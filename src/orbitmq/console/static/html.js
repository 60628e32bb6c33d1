// htm bound to preact: components are written as tagged templates, so that no build is needed.
import { h } from "/static/vendor/preact.js";
import htm from "/static/vendor/htm.js";

export const html = htm.bind(h);
export { render, Fragment } from "/static/vendor/preact.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "/static/vendor/hooks.js";
export { signal, computed, effect } from "/static/vendor/signals.js";
