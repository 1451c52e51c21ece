import { defineConfig } from 'vite';

// Addresses of files are relative, so that the pages work below any path of a proxy.
export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  build: {
    outDir: process.env['MESHWRIGHT_WEB_OUT'] ?? 'dist',
    emptyOutDir: true,
    target: 'es2022',
    // The policy of the pages allows no data: addresses for scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1000,
    // Fixed names: the server compiles these files in (cmake/web.cmake), and tags each by its bytes.
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name].js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/[name][extname]',
      },
    },
  },
  server: { proxy: { '/v1': process.env['MESHWRIGHT_HTTP'] ?? 'http://127.0.0.1:8080' } },
  test: { include: ['tests/unit/**/*.test.ts'] },
} as Parameters<typeof defineConfig>[0]);
