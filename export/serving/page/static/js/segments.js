// A text as sentences and the separators around them; joined again, they are the text.

const EAST_ASIAN = "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\u3000-\\u303f\\uff00-\\uffef…]";
const BEGINS = new RegExp(`^${EAST_ASIAN}`, "u");
const ENDS = new RegExp(`${EAST_ASIAN}$`, "u");

/** The sentences of a text, as the model's signature `segments` finds them; its lines if it has no such signature. */
export async function segment(model, text, signal) {
  if (!model.has("segments")) return lines(text);
  const [row] = await model.predict("segments", [text], signal);
  const found = withoutEmpty(row.segments, row.separators);
  return length(found) === text.length ? found : lines(text);
}

function length({ sentences, separators }) {
  return [...sentences, ...separators].reduce((sum, part) => sum + part.length, 0);
}

function withoutEmpty(segments, separators) {
  const found = { sentences: [], separators: [separators[0] ?? ""] };
  segments.forEach((segment, number) => add(found, segment, separators[number + 1] ?? ""));
  return found;
}

function add({ sentences, separators }, sentence, separator) {
  if (sentence === "") {
    separators[separators.length - 1] += separator;
  } else {
    sentences.push(sentence);
    separators.push(separator);
  }
}

function lines(text) {
  const found = { sentences: [], separators: [""] };
  for (const line of text.split(/(?<=\n)/)) {
    const sentence = line.trim();
    const start = sentence ? line.indexOf(sentence) : line.length;
    found.separators[found.separators.length - 1] += line.slice(0, start);
    if (sentence) add(found, sentence, line.slice(start + sentence.length));
  }
  return found;
}

/** The separators of the translation: sentences of Chinese or Japanese have no space between them, all others have. */
export function targetSeparators(separators, translations) {
  return separators.map((separator, number) => {
    const left = translations[number - 1], right = translations[number];
    if (!left || !right) return separator;
    if (separator === "" && !ENDS.test(left)) return " ";
    return separator === " " && ENDS.test(left) && BEGINS.test(right) ? "" : separator;
  });
}

/** Separators and sentences, one after the other. */
export function join(separators, sentences) {
  return separators.map((separator, number) => separator + (sentences[number] ?? "")).join("");
}

/** Where each sentence begins in the text. */
export function starts(separators, sentences) {
  let place = 0;
  return sentences.map((sentence, number) => {
    const start = place + separators[number].length;
    place = start + sentence.length;
    return start;
  });
}
