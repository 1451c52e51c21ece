# Source: microsoft/Megatron-DeepSpeed examples_deepspeed/pretrain_llama2_distributed.sh
set -ex
BASE_PATH=./tmp
DS_CONFIG=${BASE_PATH}/deepspeed.json
DATASET_1="./tmp/data/bookcorpus_train_1m_text_sentence"
DATASET="1 ${DATASET_1}"
CHECKPOINT_PATH=./tmp
TP=2
PP=2
ZERO_STAGE=0
GPUS_PER_NODE=8
MASTER_ADDR=localhost
MASTER_PORT=6000
NNODES=1
NODE_RANK=0
HIDDEN_SIZE=2048 # e.g. llama-13b: 5120
FFN_HIDDEN_SIZE=5504
NUM_LAYERS=24
NUM_HEADS=16
SEQ_LENGTH=2048
NUM_KV_HEADS=4
MICRO_BATCH_SIZE=4
GLOBAL_BATCH_SIZE=32
TRAIN_STEPS=250000
LR=3e-4
activation_checkpoint="false"
LOG_TO_WANDB=0
WANDB_ARGS=
if [ $LOG_TO_WANDB -eq 1 ]
then
WANDB_ARGS="\
       --wandb-project pretrain-llama2 \
       --wandb-exp-name exp0"
fi
cat <<EOT > $DS_CONFIG
{
  "train_batch_size" : $GLOBAL_BATCH_SIZE,
  "train_micro_batch_size_per_gpu": $MICRO_BATCH_SIZE,
  "steps_per_print": 1,
  "zero_optimization": {
    "stage": $ZERO_STAGE
  },
  "bf16": {
    "enabled": true
  }
}
EOT
ds_args=""
ds_args=" --deepspeed ${ds_args}"
ds_args=" --deepspeed_config=$DS_CONFIG ${ds_args}"
ds_args=" --zero-stage=$ZERO_STAGE ${ds_args}"
if [ "${activation_checkpoint}" = "true" ]; then
  ds_args="--deepspeed-activation-checkpointing ${ds_args}"
  ds_args="--recompute-granularity full --recompute-method uniform ${ds_args}"
fi
DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT"
torchrun $DISTRIBUTED_ARGS \
       pretrain_gpt.py \
       --tensor-model-parallel-size $TP \
       --pipeline-model-parallel-size $PP \
       --num-layers $NUM_LAYERS --hidden-size $HIDDEN_SIZE --ffn-hidden-size $FFN_HIDDEN_SIZE \
       --num-attention-heads $NUM_HEADS --micro-batch-size $MICRO_BATCH_SIZE \
       --global-batch-size $GLOBAL_BATCH_SIZE --seq-length $SEQ_LENGTH \
       --max-position-embeddings $SEQ_LENGTH --train-iters $TRAIN_STEPS \
       --save $CHECKPOINT_PATH --load $CHECKPOINT_PATH --data-path $DATASET --data-impl mmap \
       --tokenizer-type GPTSentencePieceTokenizer --split 949,50,1 --distributed-backend nccl \
       --lr $LR --lr-decay-style cosine --optimizer adam --adam-beta1 0.9 --log-interval 1 \
       --eval-iters 10 --bf16 --no-query-key-layer-scaling --attention-dropout 0 \
       --hidden-dropout 0 --use-rotary-position-embeddings \
       --untie-embeddings-and-output-weights --swiglu --normalization rmsnorm \
       --disable-bias-linear --num-key-value-heads $NUM_KV_HEADS \
       $WANDB_ARGS \
       $ds_args
