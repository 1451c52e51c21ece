// The words of the pages about plans by their dimensions; en.ts has all others.
import type { Message } from '../text';

export const enPlans = {
  'list.comma': ', ',
  'tab.dimensions': 'Dimensions',
  'dimensions.title': 'Plans by their dimensions',
  'dimensions.sentence': '{count} plans take from {least} to {most} a step. They differ in: {dimensions}.',
  'dimensions.narrowed': {
    one: '{count} of them is chosen: {name}, with {time}.',
    other: '{count} of them are chosen; the fastest is {name}, with {time}.',
  },
  'dimensions.none': 'None of them is chosen.',
  'dimensions.few': 'The study has ranked fewer than two plans, so there is nothing to compare.',
  'dimensions.chosen': 'Chosen',
  'dimensions.other': 'Not chosen',
  'dimensions.chosenTitle': 'Chosen plans, the fastest first',
  'dimensions.narrow': 'Choose plans',
  'dimensions.hint': 'Only plans with a ticked value in every dimension are chosen. A range that is drawn along an axis of the chart does the same; a click on the axis removes it.',
  'dimensions.count': { one: '{count} of {total} plans is chosen.', other: '{count} of {total} plans are chosen.' },
  'dimensions.cut': 'The first {count} of {total} are listed.',
  'dimensions.listCut': 'The first {count} plans of the study are shown.',
  'dimensions.all': 'Choose all',
  'dimensions.atLeast': 'At least',
  'dimensions.atMost': 'At most',
  'field.recomputed_layers': 'Recomputed layers',
  'importance.title': 'How much each dimension explains',
  'importance.sentence': 'Among the {count} chosen plans without the baseline, {name} explains most of the step time by itself: {share} of its variance.',
  'importance.none': 'No dimension can be judged: too few plans are chosen, or all take equally long.',
  'importance.dimension': 'Dimension',
  'importance.share': 'Explained variance',
  'importance.values': 'Values',
  'importance.measure': 'The plans are grouped by the values of one dimension at a time. The bar is epsilon squared of this one-way grouping: the share of the step time’s variance that lies between the groups, less what as many groups explain by chance. Dimensions depend on each other, so the shares overlap and need not add up to 100 %. A search keeps the fastest plans only, so what holds among them need not hold for the whole space.',
} as const satisfies Record<string, Message>;
