// Dark and light: the system's choice, until the button changes it.

const KEY = "theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export function installTheme(button) {
  const show = () => {
    const chosen = stored();
    if (chosen) document.documentElement.dataset.theme = chosen;
    button.textContent = current() === "dark" ? "Light" : "Dark";
  };
  button.addEventListener("click", () => {
    store(current() === "dark" ? "light" : "dark");
    show();
  });
  system.addEventListener("change", show);
  show();
}

function current() {
  return document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
}

// A browser may forbid storage; the choice then lasts as long as the page.
function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function store(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    return;
  }
}
