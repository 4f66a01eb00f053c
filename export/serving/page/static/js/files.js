// Text files: opened, dropped, downloaded; and the clipboard.

const LARGEST = 4 * 1024 * 1024;
const SUBTITLES = /\.(srt|vtt)$/i;

/** The text of a file. Raises an Error that says why it cannot be translated here. */
export async function readText(file) {
  if (SUBTITLES.test(file.name)) {
    throw new Error(`${file.name} has subtitles: translate it with tf-transformer translate --documents, which keeps the times.`);
  }
  if (file.size > LARGEST) throw new Error(`${file.name} is larger than 4 MB: translate it with tf-transformer translate --documents.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  throw new Error(`${file.name} is not a text file in UTF-8.`);
}

/** Takes the first file that is dropped on an element. */
export function acceptDrops(element, take) {
  const over = (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    element.classList.toggle("dropping", event.type === "dragover");
  };
  for (const name of ["dragover", "dragleave", "drop"]) element.addEventListener(name, over);
  element.addEventListener("drop", (event) => event.dataTransfer?.files.length && take(event.dataTransfer.files[0]));
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** letter.txt → letter.de.txt */
export function nameOfTranslation(opened, language) {
  const [, stem, ending] = /^(.*?)(\.[^.]*)?$/.exec(opened || "translation.txt");
  return `${stem}${language && `.${language}`}${ending ?? ".txt"}`;
}

/** Copies a text; outside secure contexts, where there is no clipboard, with the browser's old command. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("The browser did not allow to copy.");
}
