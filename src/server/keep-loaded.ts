/** Returns a function that calls `load` once and keeps what it resolves with. A failure is not kept: the next call loads again. */
export function keepLoaded<Loaded>(load: () => Promise<Loaded>): () => Promise<Loaded> {
  let loading: Promise<Loaded> | undefined;
  return () => {
    loading ??= load().catch((error) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}
