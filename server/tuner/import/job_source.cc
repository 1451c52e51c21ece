#include "server/tuner/import/job_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "search_space/base/status.h"
#include "server/tuner/import/recipe.h"
#include "server/tuner/import/text/config_settings.h"
#include "server/tuner/import/text/launch_command.h"
#include "server/tuner/import/text/shell_script.h"
#include "server/tuner/question/launch_config.h"

namespace meshwright {
namespace {

enum class FileForm { kShell, kYaml, kToml, kJson };

// A file is of a framework if it has one of the marks: keys, or beginnings of keys that end with a
// dot. The first row counts.
struct FileMark {
  std::string_view framework = {};
  FileForm form = FileForm::kYaml;
  std::string_view key = {};
};

constexpr FileMark kMarks[] = {
    {"deepspeed", FileForm::kJson, "train_micro_batch_size_per_gpu"},
    {"deepspeed", FileForm::kJson, "train_batch_size"},
    {"deepspeed", FileForm::kJson, "zero_optimization."},
    {"paddle", FileForm::kJson, "per_device_train_batch_size"},
    {"paddle", FileForm::kJson, "tensor_parallel_degree"},
    {"torchtitan", FileForm::kToml, "parallelism."},
    {"torchtitan", FileForm::kToml, "training."},
    {"flagscale", FileForm::kYaml, "system."},
    {"flagscale", FileForm::kYaml, "experiment."},
    {"pytorch-fsdp", FileForm::kYaml, "distributed_type"},
    {"pytorch-fsdp", FileForm::kYaml, "fsdp_config."},
    {"nanotron", FileForm::kYaml, "tokens."},
    {"nanotron", FileForm::kYaml, "parallelism."},
    {"megatron-bridge", FileForm::kYaml, "model.tensor_model_parallel_size"},
    {"megatron-bridge", FileForm::kYaml, "model.pipeline_model_parallel_size"},
    {"megatron-bridge", FileForm::kYaml, "train.global_batch_size"},
    {"nemo", FileForm::kYaml, "trainer.strategy."},
    {"maxtext", FileForm::kYaml, "base_config"},
    {"maxtext", FileForm::kYaml, "base_emb_dim"},
    {"maxtext", FileForm::kYaml, "per_device_batch_size"},
    {"maxtext", FileForm::kYaml, "ici_fsdp_parallelism"},
    {"megatron-core", FileForm::kYaml, "MODEL_ARGS."},
    {"megatron-core", FileForm::kYaml, "language_model."},
    {"megatron-core", FileForm::kYaml, "model_parallel."},
    {"megatron-core", FileForm::kYaml, "tensor_model_parallel_size"},
    {"megatron-core", FileForm::kYaml, "num_layers"},
};

// Flags that only MindSpeed and MindSpeed-LLM have.
constexpr std::array<std::string_view, 9> kMindSpeedFlags = {
    "use-fused-rmsnorm",     "use-fused-swiglu",       "use-fused-rotary-pos-emb",
    "context-parallel-algo", "use-ascend-mc2",         "moe-tp-extend-ep",
    "num-layer-list",        "tokenizer-name-or-path", "use-ascend-coc"};
// Flags that Megatron-LM had before Megatron-Core ran its layers.
constexpr std::array<std::string_view, 3> kOldFlags = {"activations-checkpoint-method",
                                                       "checkpoint-activations", "DDP-impl"};

// Arguments of training scripts that state a part of the plan.
constexpr std::array<std::string_view, 4> kReadArguments = {
    "per-device-train-batch-size", "gradient-accumulation-steps", "gradient-checkpointing",
    "ep-world-size"};

bool HasKey(const std::vector<Setting>& settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](const Setting& setting) {
    return setting.key == key || (key.ends_with('.') && setting.key.starts_with(key));
  });
}

bool HasAnyOf(const std::vector<Setting>& settings, std::span<const std::string_view> keys) {
  return std::ranges::any_of(keys, [&](std::string_view key) { return HasKey(settings, key); });
}

FileForm FormOf(std::string_view name, std::string_view text) {
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  if (ends(".json")) return FileForm::kJson;
  if (ends(".toml")) return FileForm::kToml;
  if (ends(".yaml") || ends(".yml")) return FileForm::kYaml;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_object = first != std::string_view::npos && text[first] == '{';
  return is_object ? FileForm::kJson : FileForm::kShell;
}

absl::StatusOr<std::vector<Setting>> ReadForm(FileForm form, std::string_view text,
                                              std::string_view name) {
  switch (form) {
    case FileForm::kYaml:
      return YamlSettings(text, name);
    case FileForm::kToml:
      return TomlSettings(text, name);
    case FileForm::kJson:
      return JsonSettings(text, name);
    case FileForm::kShell:
      break;
  }
  return std::vector<Setting>();
}

// "system.precision.bf16" is the flag "bf16" wherever it stands, "MODEL_ARGS.--bf16" too.
void MakeFlag(Setting& setting) {
  std::string key = setting.key.substr(setting.key.rfind('.') + 1);
  key.erase(0, std::min(key.find_first_not_of('-'), key.size()));
  std::ranges::replace(key, '_', '-');
  setting.key = std::move(key);
}

std::string Known() {
  return "supported are scripts and arguments of Megatron-LM and of what is built on it, YAML of "
         "FlagScale, accelerate, nanotron, MaxText, Megatron-Bridge and NeMo, TOML of torchtitan, "
         "and JSON of DeepSpeed and PaddleNLP";
}

class Gatherer {
 public:
  explicit Gatherer(const ImportRequest& request) : request_(request) {}

  absl::StatusOr<JobSource> Gather() {
    const FileForm form = FormOf(request_.file, request_.text);
    if (form == FileForm::kShell) {
      RETURN_IF_ERROR(GatherScript());
    } else {
      RETURN_IF_ERROR(GatherFile(form, request_.text, request_.file));
    }
    return std::move(source_);
  }

 private:
  absl::StatusOr<std::string> Open(const std::string& path) {
    for (const ConfigFile& file : written_) {
      if (file.name == path) return file.text;
    }
    auto text = request_.open_file ? request_.open_file(path)
                                   : absl::NotFoundError(path + "; no files are read here");
    if (text.ok()) return text;
    return InvalidFields({{.field = path, .description = std::string(text.status().message())}});
  }

  // Reads a file of a framework.
  absl::Status GatherFile(FileForm form, std::string_view text, std::string_view name) {
    ASSIGN_OR_RETURN(std::vector<Setting> settings, ReadForm(form, text, name));
    std::string_view framework;
    for (const FileMark& mark : kMarks) {
      if (mark.form != form || !HasKey(settings, mark.key)) continue;
      framework = mark.framework;
      break;
    }
    if (framework.empty()) {
      return WithReason(
          InvalidFields({{.field = std::string(name),
                          .description = "has no key of a framework that is known; " + Known()}}),
          "UNKNOWN_LAUNCH_FILE");
    }
    return TakeFile(framework, std::move(settings), name);
  }

  absl::Status TakeFile(std::string_view framework, std::vector<Setting> settings,
                        std::string_view name) {
    source_.framework = framework;
    if (framework == "flagscale") return TakeFlagScale(std::move(settings), name);
    if (framework == "megatron-bridge") {
      settings = BridgeFlags(std::move(settings));
      TakeRecipe();
    } else if (framework == "nemo") {
      settings = NemoFlags(std::move(settings));
      TakeRecipe();
    } else if (framework == "megatron-core") {
      std::erase_if(settings, [](const Setting& setting) {
        return setting.key.starts_with("ENV_VARS.") || setting.key == "TEST_TYPE" ||
               setting.key == "METRICS";
      });
      std::ranges::for_each(settings, MakeFlag);
      NameMegatron(settings);
    } else if (framework == "pytorch-fsdp") {
      for (const Setting& setting : settings) {
        if (setting.key == "num_processes") source_.launcher.push_back(setting);
      }
    }
    std::ranges::move(settings, std::back_inserter(source_.settings));
    return absl::OkStatus();
  }

  void TakeRecipe() {
    source_.framework = "megatron-core";
    source_.notes.emplace_back(
        "fields that the recipe states and this file does not are Megatron's defaults here");
  }

  // The experiment names the file of the training, which lies in the folder beside it.
  absl::Status TakeFlagScale(std::vector<Setting> settings, std::string_view experiment) {
    const auto is_of_train = [](const Setting& setting) {
      return setting.key.starts_with("system.") || setting.key.starts_with("model.") ||
             setting.key.starts_with("data.");
    };
    const bool has_train = std::ranges::any_of(settings, is_of_train);
    std::string defaults;
    for (const Setting& setting : settings) {
      if (setting.key.starts_with("experiment.runner.")) source_.launcher.push_back(setting);
      if (setting.key == "defaults") defaults = setting.value;
    }
    if (!has_train) {
      const std::size_t begin = defaults.find("\"train\":\"");
      if (begin == std::string::npos) {
        return InvalidFields({{.field = request_.file,
                               .description = "has no part system, model or data, and names no "
                                              "file of them (defaults: train)"}});
      }
      const std::size_t name = begin + std::string_view("\"train\":\"").size();
      const std::string path =
          fmt::format("{}train/{}.yaml", experiment.substr(0, experiment.rfind('/') + 1),
                      defaults.substr(name, defaults.find('"', name) - name));
      ASSIGN_OR_RETURN(const std::string text, Open(path));
      ASSIGN_OR_RETURN(settings, YamlSettings(text, path));
    }
    std::erase_if(settings, [&](const Setting& setting) { return !is_of_train(setting); });
    std::ranges::for_each(settings, MakeFlag);
    std::ranges::move(settings, std::back_inserter(source_.settings));
    return absl::OkStatus();
  }

  // Names the member of Megatron's family that knows all of the flags.
  void NameMegatron(const std::vector<Setting>& flags) {
    constexpr std::array<std::string_view, 5> kFamily = {
        "megatron-core", "megatron-lm", "megatron-deepspeed", "mindspeed", "flagscale"};
    source_.framework = "megatron-core";
    if (HasAnyOf(flags, kOldFlags)) source_.framework = "megatron-lm";
    if (HasAnyOf(flags, kMindSpeedFlags)) source_.framework = "mindspeed";
    if (HasKey(flags, "deepspeed") || HasKey(flags, "deepspeed-config")) {
      source_.framework = "megatron-deepspeed";
    }
    const bool is_stated = std::ranges::find(kFamily, request_.framework) != kFamily.end();
    if (is_stated) source_.framework = request_.framework;
  }

  absl::Status GatherScript() {
    ShellScript script =
        ReadShellScript(request_.text, request_.file, request_.variables, request_.open_file);
    written_ = script.files;
    source_.batch = script.batch;
    std::ranges::move(script.notes, std::back_inserter(source_.notes));
    TakePools(script);
    ASSIGN_OR_RETURN(LaunchCommand command, FindLaunchCommand(script, request_.file));
    source_.launcher = std::move(command.launcher);
    const bool is_megatron = HasKey(command.arguments, "tensor-model-parallel-size") ||
                             HasKey(command.arguments, "num-layers") ||
                             HasKey(command.arguments, "micro-batch-size");
    if (is_megatron) return TakeMegatron(std::move(command));
    if (HasKey(command.overrides, "trainer.")) {
      source_.launcher = command.overrides;
      std::erase_if(command.overrides, [](const Setting& setting) {
        return setting.key == "trainer.num_nodes" || setting.key == "trainer.devices";
      });
      return TakeFile("nemo", std::move(command.overrides), request_.file);
    }
    return TakeConfigured(script, std::move(command));
  }

  // Commands of our own exports name the pools of the stages.
  void TakePools(const ShellScript& script) {
    const auto names = script.variables.find("MESHWRIGHT_POOLS");
    if (names == script.variables.end()) return;
    std::istringstream list(names->second);
    for (std::string name; std::getline(list, name, ',');) source_.pools.push_back(name);
  }

  absl::Status TakeMegatron(LaunchCommand command) {
    std::vector<Setting>& flags = command.arguments;
    NameMegatron(flags);
    if (command.program.ends_with(".py") && !command.program.ends_with("pretrain_gpt.py")) {
      source_.notes.push_back(
          fmt::format("{} may set defaults of its own, which are not read", command.program));
    }
    for (const Setting& flag : flags) {
      if (flag.key != "deepspeed-config") continue;
      if (!flag.unresolved.empty()) {
        source_.notes.push_back(
            fmt::format("the DeepSpeed file is not read; its name depends on {}", flag.unresolved));
        continue;
      }
      // Scripts often write the file by a command that is not executed here.
      const auto text = Open(flag.value);
      if (!text.ok()) {
        source_.notes.push_back(
            fmt::format("the DeepSpeed file {} cannot be read; ZeRO is that of "
                        "--zero-stage",
                        flag.value));
        continue;
      }
      ASSIGN_OR_RETURN(source_.deepspeed, JsonSettings(*text, flag.value));
    }
    std::ranges::move(flags, std::back_inserter(source_.settings));
    return absl::OkStatus();
  }

  // A command that names the file of its framework, and may override keys of it.
  absl::Status TakeConfigured(const ShellScript& script, LaunchCommand command) {
    for (const std::string& path : ConfiguredPaths(script, command))
      RETURN_IF_ERROR(TakePath(path));
    if (source_.framework.empty()) source_.framework = OverriddenFramework(command.overrides);
    if (source_.framework.empty()) {
      return WithReason(
          InvalidFields({{.field = request_.file,
                          .description = "starts a program without arguments or a file of a "
                                         "framework that is known; " +
                                         Known()}}),
          "UNKNOWN_LAUNCH_FILE");
    }
    TakeOverrides(script, std::move(command));
    return absl::OkStatus();
  }

  // Returns the files that a command names as those of its framework.
  std::vector<std::string> ConfiguredPaths(const ShellScript& script,
                                           const LaunchCommand& command) const {
    std::vector<std::string> paths = command.files;
    constexpr std::array<std::string_view, 5> kPathFlags = {
        "job.config-file", "config-file", "deepspeed-config", "deepspeed", "config"};
    for (const auto* flags : {&source_.launcher, &command.arguments}) {
      for (const Setting& flag : *flags) {
        const bool is_path = std::ranges::find(kPathFlags, flag.key) != kPathFlags.end();
        if (is_path && !flag.value.empty() && flag.unresolved.empty()) paths.push_back(flag.value);
      }
    }
    // torchtitan's run_train.sh.
    const auto variable = script.variables.find("CONFIG_FILE");
    if (paths.empty() && variable != script.variables.end()) paths.push_back(variable->second);
    if (HasKey(command.arguments, "config-name")) AddHydraPath(command.arguments, paths);
    return paths;
  }

  // Returns the framework whose keys a command overrides; empty if none is known by them.
  static std::string_view OverriddenFramework(const std::vector<Setting>& overrides) {
    std::string_view framework;
    for (const FileMark& mark : kMarks) {
      if (mark.form == FileForm::kYaml && HasKey(overrides, mark.key)) framework = mark.framework;
    }
    return framework;
  }

  static void AddHydraPath(const std::vector<Setting>& arguments, std::vector<std::string>& paths) {
    std::string folder = ".";
    std::string name;
    for (const Setting& setting : arguments) {
      if (setting.key == "config-path") folder = setting.value;
      if (setting.key == "config-name") name = setting.value;
    }
    if (!name.ends_with(".yaml")) name += ".yaml";
    paths.push_back(fmt::format("{}/{}", folder, name));
  }

  absl::Status TakePath(const std::string& path) {
    if (path.ends_with("base.yml")) return absl::OkStatus();  // MaxText's own defaults
    ASSIGN_OR_RETURN(const std::string text, Open(path));
    return GatherFile(FormOf(path, text), text, path);
  }

  // A value that a command states wins over its file: "--training.seq_len 4096", "key=value".
  void TakeOverrides(const ShellScript& script, LaunchCommand command) {
    for (Setting& setting : command.overrides) {
      // Hydra's words for the files of FlagScale.
      constexpr std::string_view kTrain = "train.";
      const bool is_size = setting.key.starts_with("experiment.runner.");
      if (source_.framework == "flagscale" && !is_size) {
        if (setting.key.starts_with(kTrain)) setting.key.erase(0, kTrain.size());
        MakeFlag(setting);
      }
      (is_size ? source_.launcher : source_.settings).push_back(std::move(setting));
    }
    for (Setting& setting : command.arguments) {
      if (source_.framework == "torchtitan" && setting.key.find('.') != std::string::npos) {
        std::ranges::replace(setting.key, '-', '_');
        source_.settings.push_back(std::move(setting));
      } else if (std::ranges::find(kReadArguments, setting.key) != kReadArguments.end()) {
        source_.settings.push_back(std::move(setting));
      } else {
        source_.program.push_back(std::move(setting));
      }
    }
    constexpr const char* kSteps = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS";
    const auto steps = script.variables.find(kSteps);
    if (source_.framework == "pytorch-fsdp" && steps != script.variables.end()) {
      source_.settings.push_back(
          {.key = fmt::format("env.{}", kSteps), .value = steps->second, .place = request_.file});
    }
  }

  const ImportRequest& request_;
  JobSource source_;
  std::vector<ConfigFile> written_;
};

}  // namespace

bool HasKeyOfFramework(std::string_view json) {
  const auto file = nlohmann::json::parse(json.begin(), json.end(), nullptr, false, true);
  const auto has = [&file](std::string_view key) {
    const nlohmann::json* at = &file;
    while (!key.empty()) {
      const std::string_view name = key.substr(0, key.find('.'));
      if (!at->is_object() || !at->contains(name)) return false;
      at = &(*at)[name];
      key.remove_prefix(std::min(name.size() + 1, key.size()));
    }
    return true;
  };
  return std::ranges::any_of(kMarks, [&has](const FileMark& mark) {
    return mark.form != FileForm::kToml && has(mark.key);
  });
}

absl::StatusOr<JobSource> GatherJob(const ImportRequest& request) {
  return Gatherer(request).Gather();
}

}  // namespace meshwright
