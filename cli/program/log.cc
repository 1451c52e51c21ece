#include "cli/program/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

namespace meshwright {

void LogToStderr() {
  auto logger = std::make_shared<spdlog::logger>("meshwright",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace meshwright
