#include "cli/reports/paint.h"

#include <fmt/format.h>

namespace meshwright {
namespace {

// The colours are of the palette of 256, because many terminals show bold green and bold yellow of
// the palette of 8 so bright that nobody can read them on white.
std::string_view CodeOf(Paint paint) {
  switch (paint) {
    case Paint::kHeading:
      return "1";  // bold
    case Paint::kGood:
      return "1;38;5;28";  // bold green
    case Paint::kBad:
      return "1;38;5;160";  // bold red
    case Paint::kWarning:
      return "1;38;5;166";  // bold orange
  }
  return "0";
}

}  // namespace

std::string Painted(std::string_view text, Paint paint, bool has_color) {
  return has_color ? fmt::format("\x1b[{}m{}\x1b[0m", CodeOf(paint), text) : std::string(text);
}

}  // namespace meshwright
