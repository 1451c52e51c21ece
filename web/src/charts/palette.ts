// Colours of charts in both themes. Causes of time have one hue a family: computing is blue,
// communicating is orange, waiting is grey, everything else is violet or green.
export interface Palette {
  isDark: boolean;
  text: string;
  muted: string;
  line: string;
  surface: string;
  accent: string;
  good: string;
  bad: string;
  warn: string;
  quiet: string;
  time: Record<string, string>;
  memory: Record<string, string>;
}

const light: Palette = {
  isDark: false,
  text: '#1b2430',
  muted: '#566373',
  line: '#d7dde4',
  surface: '#ffffff',
  accent: '#0b6e69',
  good: '#1f7a3d',
  bad: '#b3261e',
  warn: '#9a5b00',
  quiet: '#9aa7b5',
  time: {
    matmul: '#1f5fbf',
    attention: '#4f8fe6',
    memory_bound: '#8db8f2',
    vocabulary: '#bcd6f8',
    recompute: '#123b7a',
    tensor_parallel: '#c45a11',
    context_parallel: '#e07b2e',
    expert_parallel: '#f0a05e',
    pipeline_p2p: '#f6c296',
    data_parallel: '#8f3f08',
    pipeline_bubble: '#8b96a3',
    optimizer: '#7a4fb5',
    activation_offload: '#a985d6',
    host: '#2f8f6b',
    fixed: '#7cc3a6',
  },
  memory: {
    weights: '#1f5fbf',
    gradients: '#4f8fe6',
    optimizer_states: '#7a4fb5',
    activations: '#c45a11',
    transient: '#f0a05e',
    framework_cache: '#8b96a3',
    overhead: '#566373',
    free: '#e8edf2',
  },
};

const dark: Palette = {
  ...light,
  isDark: true,
  text: '#e6ebf1',
  muted: '#a3b0be',
  line: '#34404d',
  surface: '#18202a',
  accent: '#4fd1c5',
  good: '#6fd08c',
  bad: '#ff8a80',
  warn: '#f2b84b',
  quiet: '#6b7886',
  time: {
    ...light.time,
    matmul: '#2f6fd6',
    attention: '#63a0f0',
    memory_bound: '#9cc3f7',
    vocabulary: '#c9def9',
    recompute: '#1d4a96',
    data_parallel: '#9c4a14',
  },
  memory: { ...light.memory, weights: '#2f6fd6', gradients: '#7db0f5', overhead: '#7d8a98', free: '#2a3542' },
};

export const paletteOf = (isDark: boolean): Palette => (isDark ? dark : light);
