// The colour mode of Airflow: "light", "dark", "system" or nothing, as its shell stores it.
// A classic script in the head, so that the page is never painted in the wrong mode.
"use strict";
(() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try {
      chosen = window.localStorage.getItem("theme");
    } catch {
      // Storage may be blocked; the system decides then.
    }
    const isDark = chosen === "dark" || (chosen !== "light" && system.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
  };
  system.addEventListener("change", apply);
  // Airflow's shell around this page has changed the mode.
  window.addEventListener("storage", apply);
  apply();
})();
