#include "server/http/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/zlib/inflate_stream.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "search_space/base/embedded_file.h"
#include "search_space/digest/fnv.h"
#include "server/http/web_files.h"

namespace meshwright {
namespace {

struct PageType {
  std::string_view ending;
  std::string_view type;
};
constexpr PageType kTypes[] = {{".html", "text/html; charset=utf-8"},
                               {".js", "text/javascript; charset=utf-8"},
                               {".css", "text/css; charset=utf-8"},
                               {".svg", "image/svg+xml"}};

std::string_view TypeOf(std::string_view name) {
  for (const PageType& row : kTypes) {
    if (name.ends_with(row.ending)) return row.type;
  }
  return "application/octet-stream";
}

// Returns the name of the file for a path: "/" and "/assets/index.js".
std::string_view NameOf(std::string_view path) {
  constexpr std::string_view kAssets = "/assets/";
  if (path == "/") return "index.html";
  if (path.starts_with(kAssets)) return path.substr(kAssets.size());
  return path.empty() ? path : path.substr(1);
}

const EmbeddedFile* Find(std::string_view name) {
  const auto files = web_files();
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  return found == files.end() ? nullptr : &*found;
}

// Unpacks what cmake/web.cmake packed (RFC 1952): ten bytes of header, the deflated text, its
// checksum and, in the last four bytes, its size.
std::string Unpack(std::string_view packed) {
  constexpr std::size_t kHeader = 10;
  constexpr std::size_t kTrailer = 8;
  std::size_t size = 0;
  for (std::size_t i = 1; i <= 4; ++i) {
    size = size << 8 | static_cast<unsigned char>(packed[packed.size() - i]);
  }
  std::string text(size, '\0');
  const std::string_view deflated = packed.substr(kHeader, packed.size() - kHeader - kTrailer);
  boost::beast::zlib::z_params params;
  params.next_in = deflated.data();
  params.avail_in = deflated.size();
  params.next_out = text.data();
  params.avail_out = text.size();
  boost::beast::zlib::inflate_stream stream;
  boost::beast::error_code error;
  stream.write(params, boost::beast::zlib::Flush::finish, error);
  return text;
}

HttpResponse Text(int status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)};
}

}  // namespace

std::optional<std::string> PageText(std::string_view name) {
  const EmbeddedFile* const file = Find(name);
  if (file == nullptr) return std::nullopt;
  return Unpack(file->text);
}

HttpResponse AnswerPage(const HttpRequest& request) {
  const std::string_view name = NameOf(request.path);
  const EmbeddedFile* const file = Find(name);
  if (file == nullptr && request.path == "/") {
    return Text(404,
                "This program was built without the pages of the dashboard, because there was no "
                "Node. Its API is below /v1/.\n");
  }
  if (file == nullptr) return Text(404, fmt::format("There is no page at {}.\n", request.path));
  const std::string tag =
      fmt::format("\"{}{}\"", Fnv1a64Hex(file->text), request.accepts_gzip ? "-gzip" : "");
  HttpResponse response = {.content_type = std::string(TypeOf(name)),
                           .fields = {{"ETag", tag}, {"Vary", "Accept-Encoding"}}};
  if (request.if_none_match == tag) {
    response.status = 304;
    return response;
  }
  if (request.accepts_gzip) {
    response.fields.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(file->text);
  } else {
    response.body = Unpack(file->text);
  }
  return response;
}

}  // namespace meshwright
