#pragma once

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>

namespace meshwright {

// Quantities have their unit in the type, and only the meaningful operations exist. Raw numbers
// appear only at the edges (JSON, protobuf, SQL), where the unit is in the field's name. 1 GB = 1e9
// bytes, 1 GiB = 2^30 bytes.

using Seconds = std::chrono::duration<double>;

struct Bytes {
  std::int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

// The count is a double, because one large training step has more operations than int64 holds.
struct Flops {
  double count = 0;
  auto operator<=>(const Flops&) const = default;
};

struct BytesPerSecond {
  double rate = 0;
  auto operator<=>(const BytesPerSecond&) const = default;
};

struct FlopsPerSecond {
  double rate = 0;
  auto operator<=>(const FlopsPerSecond&) const = default;
};

constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
constexpr Bytes& operator+=(Bytes& a, Bytes b) { return a = a + b; }
constexpr double operator/(Bytes a, Bytes b) {
  return static_cast<double>(a.count) / static_cast<double>(b.count);
}
constexpr Flops operator+(Flops a, Flops b) { return {a.count + b.count}; }
constexpr Flops operator*(Flops a, double n) { return {a.count * n}; }
constexpr Flops& operator+=(Flops& a, Flops b) { return a = a + b; }
constexpr Seconds operator/(Bytes a, BytesPerSecond b) {
  return Seconds(static_cast<double>(a.count) / b.rate);
}
constexpr Seconds operator/(Flops a, FlopsPerSecond b) { return Seconds(a.count / b.rate); }
constexpr BytesPerSecond operator*(BytesPerSecond a, double n) { return {a.rate * n}; }
constexpr FlopsPerSecond operator*(FlopsPerSecond a, double n) { return {a.rate * n}; }

// Returns `count`, which must not be negative, rounded to the nearest byte. llround would be a
// function call.
inline Bytes RoundedBytes(double count) {
  const auto whole = static_cast<std::int64_t>(count);
  return {count - static_cast<double>(whole) < 0.5 ? whole : whole + 1};
}
inline Bytes Scale(Bytes a, double n) { return RoundedBytes(static_cast<double>(a.count) * n); }

constexpr Bytes GiB(double n) { return {static_cast<std::int64_t>(n * 1073741824.0)}; }

}  // namespace meshwright
