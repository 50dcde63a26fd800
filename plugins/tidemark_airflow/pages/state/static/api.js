// Requests to the API of this page, and to Airflow's own. All addresses are relative.

export const AIRFLOW = "../..";
const DEFAULT = "default";
/** The journal of this page: the parameter of its address. */
export const JOURNAL = new URLSearchParams(window.location.search).get("journal") ?? DEFAULT;

/** Return the DAG of this page's journal by its name in the journal "default". */
export const dagOf = (name) => (JOURNAL === DEFAULT ? name : `${name}.${JOURNAL}`);

/** Return the address of this page for another journal. */
export const pageOf = (journal) => `${journal === DEFAULT ? "./" : `?journal=${encodeURIComponent(journal)}`}${window.location.hash}`;

/** A problem that an answer has named: what, where, what to do. */
export class Problem extends Error {
  constructor(status, { what, where, do: remedy } = {}) {
    super(`${what || `the server answered with status ${status}`}${where ? ` (${where})` : ""}${remedy ? `; ${remedy}` : ""}`);
    this.status = status;
  }
}

async function answerOf(request) {
  let answer;
  try {
    answer = await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { what: "Airflow does not answer", do: "this page tries again every 15 seconds" });
  }
  if (answer.ok) return answer.json();
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // A proxy may answer with a page.
  }
  if (answer.status === 401) body = { what: "you are not logged in", do: "log in to Airflow, and reload this page" };
  if (!body.what && typeof body.detail === "string") body = { what: body.detail };
  throw new Problem(answer.status, body);
}

/** Return an answer of the API; parameters that are empty are left out. */
export function get(subject, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(JOURNAL === DEFAULT ? {} : { journal: JOURNAL });
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  return answerOf(fetch(`api/v1/${subject}?${query}`, { signal, headers: { Accept: "application/json" } }));
}

export function post(subject, body, signal = undefined) {
  return answerOf(
    fetch(`api/v1/${subject}`, {
      method: "POST",
      signal,
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

/** Return an answer of Airflow's own REST API. */
export const airflow = (path) => answerOf(fetch(`${AIRFLOW}/api/v2/${path}`));

/** Return the address of a path of Airflow, such as "/dags/purge". */
export const inAirflow = (path) => `${AIRFLOW}${path}`;

/**
 * Follow links that lead out of this page in Airflow's window. Airflow shows the page in a frame that
 * may open no windows, so the shell's document has to follow the link.
 */
export function followLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || window.parent === window || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    const outer = window.parent.document.createElement("a");
    outer.href = link.href;
    if (link.target || event.ctrlKey || event.metaKey || event.shiftKey) outer.target = "_blank";
    outer.rel = "noopener";
    outer.click();
  });
}
