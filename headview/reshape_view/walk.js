// Things on their way from one place to another: cells of ReshapeView, features of HeadLab.

/** Make a walk of so many milliseconds; a place is a list of numbers. Returns `{start, stop, now}`. */
export function makeWalk(milliseconds) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  /** @type {Map<number, number[]> | null} */
  let from = null;
  let started = 0;
  return {
    start(places) {
      if (still.matches) return;
      from = places;
      started = performance.now();
    },
    stop: () => (from = null),
    /** Where things are that go to `goal`, and whether they have arrived there. @param {Map<number, number[]>} goal */
    now(goal) {
      const share = from ? Math.min(1, (performance.now() - started) / milliseconds) : 1;
      if (share === 1) return { places: goal, arrived: true };
      const eased = share < 0.5 ? 2 * share * share : 1 - 2 * (1 - share) * (1 - share);
      const between = (name, to) => to.map((end, i) => from.get(name)[i] * (1 - eased) + end * eased);
      return { places: new Map([...goal].map(([name, to]) => [name, between(name, to)])), arrived: false };
    },
  };
}
