/** Light and dark: the system's choice, or the reader's. */

const KEY = "comity-theme";
const listeners = new Set();

/** Return the theme in force: "light" or "dark". */
export function theme() {
  return (
    document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")
  );
}

/** Call a function whenever the theme changes; return a function that ends this. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Let a button switch the theme, and restore the last choice. */
export function switchTheme(button) {
  const saved = stored();
  if (saved) document.documentElement.dataset.theme = saved;
  const show = () => {
    const other = theme() === "dark" ? "light" : "dark";
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Switch to ${other} colours`);
    for (const listener of listeners) listener();
  };
  button.addEventListener("click", () => {
    const other = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = other;
    try {
      localStorage.setItem(KEY, other);
    } catch {
      // pages from files may store nothing
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

function stored() {
  try {
    const value = localStorage.getItem(KEY);
    return value === "dark" || value === "light" ? value : null;
  } catch {
    return null;
  }
}
