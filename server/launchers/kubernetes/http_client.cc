#include "server/launchers/kubernetes/http_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "search_space/base/file_text.h"

namespace meshwright {
namespace {

// Far more than a list of a few hundred jobs.
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

// A list of header lines, whose text libcurl owns.
class Headers {
 public:
  Headers() = default;
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;
  ~Headers() { curl_slist_free_all(list_); }
  void Add(const std::string& line) { list_ = curl_slist_append(list_, line.c_str()); }
  [[nodiscard]] curl_slist* list() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

std::size_t Append(const char* bytes, std::size_t size, std::size_t count, void* target) {
  auto& text = *static_cast<std::string*>(target);
  const std::size_t length = size * count;
  if (text.size() + length > kMaxBytes) return 0;  // libcurl then ends with an error
  text.append(bytes, length);
  return length;
}

// Reads the token anew for each request: tokens of service accounts are renewed within the hour.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  std::string token = RestOf(file);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (!file.bad() && !token.empty()) return token;
  return absl::UnavailableError(fmt::format("the token file {} cannot be read", path));
}

void SetRequest(CURL* curl, const HttpRequest& request, const HttpOptions& options) {
  const auto milliseconds = static_cast<long>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options.limit).count());
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, milliseconds);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  if (!options.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  if (request.body.empty()) return;
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.c_str());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
}

}  // namespace

absl::StatusOr<HttpResponse> SendHttp(const HttpRequest& request, const HttpOptions& options) {
  const Handle curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return absl::ResourceExhaustedError("libcurl cannot be set up");
  Headers headers;
  headers.Add("Accept: application/json");
  headers.Add("Expect:");  // otherwise libcurl waits a second before it sends a large body
  if (!request.body.empty()) headers.Add("Content-Type: application/json");
  if (!options.token_file.empty()) {
    const auto token = ReadToken(options.token_file);
    if (!token.ok()) return token.status();
    headers.Add("Authorization: Bearer " + *token);
  }
  HttpResponse response;
  std::array<char, CURL_ERROR_SIZE> error = {};
  SetRequest(curl.get(), request, options);
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.list());
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &response.body);
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, error.data());
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) {
    const char* const words = error.front() == '\0' ? curl_easy_strerror(code) : error.data();
    return absl::UnavailableError(fmt::format("{} {}: {}", request.method, request.url, words));
  }
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  return response;
}

std::string UrlEncoded(const std::string& text) {
  if (text.empty()) return "";  // libcurl would take the length 0 as "up to the end"
  const std::unique_ptr<char, decltype(&curl_free)> encoded(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), &curl_free);
  if (encoded == nullptr) std::abort();  // only if memory has run out
  return encoded.get();
}

}  // namespace meshwright
