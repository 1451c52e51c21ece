# Source: Ascend/MindSpeed-LLM examples/mcore/deepseek3/pretrain_deepseek3_671b_4k_ptd.sh
export HCCL_ALGO="alltoall=level0:NA;level1:pipeline"
NPUS_PER_NODE=8
MASTER_ADDR=localhost
MASTER_PORT=6000
NNODES=64
NODE_RANK=0
CKPT_SAVE_DIR="your model save ckpt path"
DATA_PATH="your data path"
TOKENIZER_PATH="your tokenizer path"
TP=4
PP=8
EP=8
CP=1
CP_TYPE='ulysses_cp_algo'
NUM_LAYERS=64
SEQ_LEN=4096
MBS=1
GBS=3840
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank $NODE_RANK \
    --master_addr $MASTER_ADDR \
    --master_port $MASTER_PORT
"
MLA_ARGS="
    --multi-head-latent-attention \
    --qk-rope-head-dim 64 \
    --qk-nope-head-dim 128 \
    --q-lora-rank 1536 \
    --kv-lora-rank 512 \
    --v-head-dim 128 \
    --qk-layernorm \
    --mla-fa-without-pad \
"
MOE_ARGS="
    --router-gating-in-fp32 --moe-grouped-gemm --moe-permutation-async-comm \
    --moe-token-dispatcher-type alltoall_seq --first-k-dense-replace 3 --moe-layer-freq 1 \
    --n-shared-experts 1 --num-experts 256 --moe-router-topk 8 --moe-intermediate-size 2048 \
    --moe-ffn-hidden-size 2048 --moe-router-load-balancing-type noaux_tc --n-group 8 \
    --topk-group 4 --routed-scaling-factor 2.5 --moe-aux-loss-coeff 0.0001 --seq-aux \
    --norm-topk-prob --moe-router-score-function sigmoid --moe-router-enable-expert-bias \
    --moe-tp-extend-ep
"
MTP_ARGS="
    --mtp-num-layers 1 --mtp-loss-scaling-factor 0.3 --mtp-mem-efficient-logits \
"
ROPE_ARGS="
    --rope-scaling-beta-fast 32 --rope-scaling-factor 40 --rope-scaling-type yarn
"
DUALPIPE_ARGS="
    --moe-fb-overlap \
    --schedules-method dualpipev \
"
MEM_ARGS="
    --swap-optimizer --swap-optimizer-times 4 --use-distributed-optimizer \
    --recompute-method uniform --recompute-granularity full --recompute-num-layers 1 \
"
GPT_ARGS="
    --spec mindspeed_llm.tasks.models.spec.deepseek_spec layer_spec \
    --reset-position-ids --gemm-gradient-accumulation-fusion --noop-layers 61,62,63 \
    --manual-gc --manual-gc-interval 50 --no-shared-storage --use-flash-attn --use-mcore-models \
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} \
    --expert-model-parallel-size ${EP} --sequence-parallel --context-parallel-size ${CP} \
    --context-parallel-algo  ${CP_TYPE} --num-layers ${NUM_LAYERS} --hidden-size 7168 \
    --ffn-hidden-size 18432 --num-attention-heads 128 --tokenizer-type PretrainedFromHF  \
    --tokenizer-name-or-path ${TOKENIZER_PATH} --seq-length ${SEQ_LEN} \
    --max-position-embeddings 163840 --micro-batch-size ${MBS} --global-batch-size ${GBS} \
    --make-vocab-size-divisible-by 1 --lr 1.0e-5 --train-iters 2000 \
    --untie-embeddings-and-output-weights --disable-bias-linear --attention-dropout 0.0 \
    --init-method-std 0.02 --hidden-dropout 0.0 --position-embedding-type rope \
    --normalization RMSNorm --use-fused-rotary-pos-emb --use-rotary-position-embeddings \
    --use-fused-swiglu --use-fused-rmsnorm --swiglu --no-masked-softmax-fusion \
    --attention-softmax-in-fp32 --weight-decay 1e-2 --clip-grad 1.0 --initial-loss-scale 65536 \
    --vocab-size 129280 --padded-vocab-size 129280 --rotary-base 10000 --norm-epsilon 1e-6 \
    --no-load-optim --no-load-rng --bf16 --use-ascend-coc --coc-fused-kernel \
    --distributed-timeout-minutes 120
"
DATA_ARGS="
    --data-path $DATA_PATH \
    --split 100,0,0
"
python -m torch.distributed.launch $DISTRIBUTED_ARGS pretrain_gpt.py \
    $GPT_ARGS \
    $DATA_ARGS \
    $MLA_ARGS \
    $ROPE_ARGS \
    $MOE_ARGS \
    $MTP_ARGS \
    $DUALPIPE_ARGS \
    $MEM_ARGS \
    --distributed-backend nccl \
    --save $CKPT_SAVE_DIR \
    | tee logs/pretrain_deepseek3_671b_4k_ptd.log
