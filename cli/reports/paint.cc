#include "cli/reports/paint.h"

#include <fmt/format.h>

namespace meshwright {
namespace {

std::string_view CodeOf(Paint paint) {
  switch (paint) {
    case Paint::kHeading:
      return "1";  // bold
    case Paint::kGood:
      return "1;32";  // bold green
    case Paint::kBad:
      return "1;31";  // bold red
    case Paint::kWarning:
      return "1;33";  // bold yellow
  }
  return "0";
}

}  // namespace

std::string Painted(std::string_view text, Paint paint, bool has_color) {
  return has_color ? fmt::format("\x1b[{}m{}\x1b[0m", CodeOf(paint), text) : std::string(text);
}

}  // namespace meshwright
