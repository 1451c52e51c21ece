// The answers that a page has in itself: the file that `meshwright report` writes holds one study, and
// asks nobody.

export type Embedded = Record<string, unknown>;

function readEmbedded(): Embedded | undefined {
  const text = globalThis.document?.getElementById('answers')?.textContent ?? '';
  if (text === '') return undefined;
  try {
    return JSON.parse(text) as Embedded;
  } catch {
    return undefined;
  }
}

/** The answers by their addresses; absent on pages that a server serves. */
export const embedded = readEmbedded();

/** Returns the id of the study that a file holds. */
export function studyIn(answers: Embedded): string | undefined {
  const found = Object.keys(answers).flatMap((address) => /^v1\/studies\/([^/?:]+)$/.exec(address)?.[1] ?? []);
  return found[0];
}
