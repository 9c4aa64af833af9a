/** The candidate that a word is most likely a slip of the fingers of; `undefined` when none is at most `most` letters away. */
export function findSimilar(word: string, candidates: readonly string[], most = 2): string | undefined {
  const typed = word.toLowerCase();
  const distances = candidates.map((candidate) => ({ candidate, distance: editDistance(typed, candidate) }));
  const [nearest] = distances.sort((a, b) => a.distance - b.distance);
  return nearest && nearest.distance <= most ? nearest.candidate : undefined;
}

/** Levenshtein's: how many single letters have to be added, dropped or changed. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
