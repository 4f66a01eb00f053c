// Where the server is, which models it has, and which of them is chosen.
//
// The server's address comes from config.json only, never from the page's address: a link must not be able to send
// what somebody types to another server.

export const MAX_CHARACTERS = 200_000;

/** Reads config.json, {"server": "", "models": ["en-de"]}, and `?model=`. */
export async function readConfig() {
  const found = await readFile();
  const models = Array.isArray(found.models) ? found.models.filter((name) => typeof name === "string") : [];
  const wanted = new URLSearchParams(location.search).get("model");
  if (wanted && models.length === 0) models.push(wanted);
  const server = new URL(found.server || ".", document.baseURI).href.replace(/\/*$/, "/");
  return { server, models, chosen: models.includes(wanted) ? wanted : models[0] };
}

/** Puts the chosen model into the page's address, for a reload or a link. */
export function rememberModel(name) {
  const address = new URL(location.href);
  address.searchParams.set("model", name);
  history.replaceState(null, "", address);
}

async function readFile() {
  try {
    const answer = await fetch("config.json", { cache: "no-cache" });
    const found = answer.ok ? await answer.json() : {};
    return found !== null && typeof found === "object" ? found : {};
  } catch {
    return {};
  }
}
