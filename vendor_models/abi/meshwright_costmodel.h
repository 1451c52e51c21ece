#pragma once

/* The C ABI of a vendor's cost model: a shared library that meshwright-costmodel-host loads into a
 * process of its own and serves as meshwright.costmodel.v1 (docs/vendor_models.md). The ABI is C11:
 * no C++ types and no exceptions cross it.
 *
 * - Every struct begins with its size, as compiled by the side that created it, and a pointer for
 *   extensions (null today). Check `size` before you read a field that a later minor version added.
 *   A minor version only adds fields at the end. Optional functions of the table may be null.
 * - Strings are pointer and length, not terminated; null with length 0 is the empty string.
 * - The host owns the data that it passes, which is valid during the call. The library owns the
 * data that it returns, which must stay valid until the host calls the matching release function.
 * - The host calls `get_api` once. It calls the functions of one context from one thread at a time,
 *   and those of different contexts from up to `max_concurrent_batches` threads at once.
 * - Only the entry point must be visible: compile with -fvisibility=hidden. */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define MW_STATIC_ASSERT static_assert
#else
#define MW_STATIC_ASSERT _Static_assert
#endif

#if defined(__GNUC__)
#define MW_EXPORT __attribute__((visibility("default")))
#else
#define MW_EXPORT
#endif

#define MW_COSTMODEL_ABI_MAJOR 1
#define MW_COSTMODEL_ABI_MINOR 0

typedef struct mw_string {
  const char* data;
  size_t length;
} mw_string;

typedef enum mw_code {
  MW_OK = 0,
  MW_INVALID = 1,     /* the question is wrong, or the model does not know a part of it */
  MW_UNSUPPORTED = 2, /* the library does not support this */
  MW_FAILED = 3       /* the model itself failed */
} mw_code;

typedef enum mw_candidate_status {
  MW_CANDIDATE_OK = 1,
  MW_CANDIDATE_INFEASIBLE_MEMORY = 2,
  MW_CANDIDATE_UNSUPPORTED = 3,
  MW_CANDIDATE_ERROR = 4
} mw_candidate_status;

/* Values of columns that hold words; they equal those of costmodel.proto. */
enum { MW_CONTEXT_RING = 1, MW_CONTEXT_ULYSSES, MW_CONTEXT_ALL_GATHER, MW_CONTEXT_HYBRID };
enum {
  MW_SCHEDULE_GPIPE = 1,
  MW_SCHEDULE_1F1B,
  MW_SCHEDULE_INTERLEAVED_1F1B,
  MW_SCHEDULE_ZB_H1,
  MW_SCHEDULE_ZB_V,
  MW_SCHEDULE_DUALPIPE,
  MW_SCHEDULE_DUALPIPE_V,
  MW_SCHEDULE_CHIMERA
};
enum { MW_RECOMPUTE_NONE = 1, MW_RECOMPUTE_SELECTIVE, MW_RECOMPUTE_FULL };
enum { MW_RANK_ORDER_TP_CP_EP_DP_PP = 1, MW_RANK_ORDER_TP_CP_EP_PP_DP };

/* The description of the model; its strings must stay valid as long as the library is loaded. */
typedef struct mw_info {
  size_t size;
  const void* extension;
  mw_string name; /* lower-case letters, digits and - */
  mw_string vendor;
  mw_string version;
  mw_string description;
  const mw_string* chips; /* ids; a trailing * matches any ending */
  size_t chip_count;
  const mw_string* precisions;
  size_t precision_count;
  const mw_string* operators;
  size_t operator_count;
  bool is_deterministic;
  int32_t max_batch_size;         /* 0: no limit */
  int32_t max_concurrent_batches; /* 0 means 1 */
  double candidates_per_second;   /* promised rate; 0: no promise */
} mw_info;

typedef struct mw_moe {
  size_t size;
  const void* extension;
  int32_t expert_count;
  int32_t experts_per_token;
  int32_t expert_ffn_hidden_size;
  int32_t shared_expert_ffn_hidden_size;
  int32_t first_dense_layer_count;
  double imbalance_ratio;
} mw_moe;

typedef struct mw_mla {
  size_t size;
  const void* extension;
  int32_t q_lora_rank;
  int32_t kv_lora_rank;
  int32_t qk_nope_head_dim;
  int32_t qk_rope_head_dim;
  int32_t v_head_dim;
} mw_mla;

typedef struct mw_model {
  size_t size;
  const void* extension;
  mw_string name;
  int32_t layer_count;
  int32_t hidden_size;
  int32_t ffn_hidden_size;
  int32_t attention_head_count;
  int32_t kv_head_count;
  int32_t head_dim;
  int32_t vocab_size;
  int32_t sliding_window;
  int32_t mtp_layer_count;
  bool has_tied_embeddings;
  mw_string mlp;
  mw_string norm;
  int64_t parameter_count;
  int64_t active_parameter_count;
  const mw_moe* moe; /* null: dense */
  const mw_mla* mla; /* null: standard attention */
} mw_model;

typedef struct mw_workload {
  size_t size;
  const void* extension;
  int32_t sequence_length;
  int32_t global_batch_size;
  mw_string precision;
  mw_string attention_kernel;
  mw_string norm_kernel;
  mw_string cross_entropy_kernel;
  mw_string optimizer;
  mw_string gradient_dtype;
  mw_string fp8_recipe;
  double dropout_ratio;
  bool has_grouped_gemm;
  bool overlaps_gradient_reduce;
  bool overlaps_parameter_gather;
  bool overlaps_tensor_parallel;
  bool overlaps_pipeline_p2p;
  mw_string framework_name;
  mw_string framework_version;
  const mw_string* recompute_module_names;
  size_t recompute_module_count;
} mw_workload;

typedef struct mw_link {
  size_t size;
  const void* extension;
  mw_string kind;
  double bandwidth_bytes_per_second;
  double latency_seconds;
  int32_t device_count;
} mw_link;

typedef struct mw_peak {
  mw_string precision;
  double flops_per_second;
} mw_peak;

typedef struct mw_pool {
  size_t size;
  const void* extension;
  mw_string name;
  mw_string chip_id;
  mw_string chip_vendor;
  mw_string chip_name;
  int32_t node_count;
  int32_t devices_per_node;
  int32_t core_count;
  int64_t memory_capacity_bytes;
  int64_t cache_bytes;
  double memory_bandwidth_bytes_per_second;
  double power_limit_watts;
  const mw_peak* peaks;
  size_t peak_count;
  mw_link intra_node;
  mw_link inter_node;
} mw_pool;

typedef struct mw_question {
  size_t size;
  const void* extension;
  mw_model model;
  mw_workload workload;
  const mw_pool* pools;
  size_t pool_count;
  mw_string topology;
  int32_t nodes_per_segment;
  double oversubscription_ratio;
  const void* calibration; /* result of fit_calibration; null: none */
  size_t calibration_length;
} mw_question;

/* Columns of `count` entries; a null column has the default of costmodel.proto in every entry. */
typedef struct mw_candidates {
  size_t size;
  const void* extension;
  size_t count;
  const int32_t* tensor_parallel;
  const bool* sequence_parallel;
  const int32_t* pipeline_parallel;
  const int32_t* virtual_pipeline;
  const int32_t* data_parallel;
  const int32_t* context_parallel;
  const int32_t* context_parallel_kind;
  const int32_t* expert_parallel;
  const int32_t* expert_tensor_parallel;
  const int32_t* micro_batch_size;
  const int32_t* zero_stage;
  const int32_t* zero_group_size;
  const int32_t* schedule;
  const int32_t* recompute;
  const uint32_t* recompute_modules;
  const int32_t* rank_order;
  const double* optimizer_offload_ratio;
  const double* activation_offload_ratio;
  const double* whole_weights_ratio;
  /* Concatenated lists; the length column gives the length of each. */
  const int32_t* layers_per_stage_length;
  const int32_t* layers_per_stage;
  const int32_t* recompute_layers_length;
  const int32_t* recompute_layers;
  const int32_t* selective_layers_length;
  const int32_t* selective_layers;
} mw_candidates;

/* Columns of `count` entries that the host allocates and the library fills. Initially every
 * `status` is MW_CANDIDATE_ERROR, times are 0 and reasons are empty. A reason may point to static
 * text, or to text that stays valid until the next call of the context. */
typedef struct mw_estimates {
  size_t size;
  const void* extension;
  int32_t* status;
  double* step_time_seconds;
  double* step_time_low_seconds;
  double* step_time_high_seconds;
  int64_t* peak_memory_bytes;
  mw_string* reason;
  /* Null unless a breakdown is requested; count x breakdown_name_count values, row by row. */
  double* breakdown_seconds;
} mw_estimates;

/* Text that the library owns; the host passes it to release_text. */
typedef struct mw_text {
  size_t size;
  const void* extension;
  mw_string text;
} mw_text;

typedef struct mw_calibration_test {
  mw_string name;
  mw_string what;
  mw_string unit;
} mw_calibration_test;

typedef struct mw_measurement {
  mw_string name;
  double value;
} mw_measurement;

typedef struct mw_context mw_context; /* defined by the library */

/* `message` is set if the code is not MW_OK; release_text releases it. */
typedef struct mw_costmodel_api {
  size_t size;
  const void* extension;
  uint32_t abi_major;
  uint32_t abi_minor;
  const mw_info* info;
  /* The names of the lines of breakdown_seconds, for all contexts. */
  const mw_string* breakdown_names;
  size_t breakdown_name_count;
  mw_code (*open_context)(const mw_question* question, mw_context** context, mw_text* message);
  void (*close_context)(mw_context* context);
  mw_code (*estimate_batch)(mw_context* context, const mw_candidates* candidates,
                            mw_estimates* estimates, mw_text* message);
  void (*release_text)(mw_text* text);
  /* The following functions may be null. */
  mw_code (*explain)(mw_context* context, const mw_candidates* candidate, mw_text* lines);
  mw_code (*lower_bound)(mw_context* context, const mw_candidates* candidates, double* seconds);
  mw_code (*list_calibration_tests)(mw_string chip, const mw_calibration_test** tests,
                                    size_t* count);
  mw_code (*fit_calibration)(mw_string chip, const mw_measurement* measurements, size_t count,
                             mw_text* calibration, mw_text* message);
} mw_costmodel_api;

/* The only entry point. Returns null if the library does not support the host's major version. The
 * table must stay valid as long as the library is loaded. */
#define MW_COSTMODEL_ENTRY "meshwright_costmodel_get_api"
MW_EXPORT const mw_costmodel_api* meshwright_costmodel_get_api(uint32_t host_major,
                                                               uint32_t host_minor);

/* The layout of version 1.0 on 64-bit machines, which never changes. */
MW_STATIC_ASSERT(sizeof(void*) == 8, "the ABI is for 64-bit machines");
MW_STATIC_ASSERT(sizeof(bool) == 1, "columns of bool are bytes");
MW_STATIC_ASSERT(sizeof(mw_string) == 16, "mw_string");
MW_STATIC_ASSERT(offsetof(mw_info, is_deterministic) == 128, "mw_info");
MW_STATIC_ASSERT(sizeof(mw_info) == 152, "mw_info");
MW_STATIC_ASSERT(sizeof(mw_model) == 136, "mw_model");
MW_STATIC_ASSERT(sizeof(mw_workload) == 200, "mw_workload");
MW_STATIC_ASSERT(sizeof(mw_link) == 56, "mw_link");
MW_STATIC_ASSERT(sizeof(mw_pool) == 256, "mw_pool");
MW_STATIC_ASSERT(sizeof(mw_question) == 416, "mw_question");
MW_STATIC_ASSERT(offsetof(mw_candidates, tensor_parallel) == 24, "mw_candidates");
MW_STATIC_ASSERT(sizeof(mw_candidates) == 224, "mw_candidates");
MW_STATIC_ASSERT(sizeof(mw_estimates) == 72, "mw_estimates");
MW_STATIC_ASSERT(sizeof(mw_text) == 32, "mw_text");
MW_STATIC_ASSERT(offsetof(mw_costmodel_api, open_context) == 48, "mw_costmodel_api");
MW_STATIC_ASSERT(sizeof(mw_costmodel_api) == 112, "mw_costmodel_api");

#ifdef __cplusplus
}
#endif
