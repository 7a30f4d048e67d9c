"""The page in which :mod:`~shoal.simulation.animation` shows a run."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Shoal</title><style>
body{font:14px sans-serif;margin:16px;color:#222;background:#fff}
svg{width:100%;max-width:1200px;border:1px solid #ddd;display:block}
#bar{display:flex;gap:12px;align-items:center;max-width:1200px;margin:8px 0}
#at{flex:1} button{font:inherit;padding:4px 14px} #said{color:#555}
circle{stroke:#555} .root{stroke:#000;stroke-width:3px} .gone{fill:#fff!important;stroke:#c00}
.ring{fill:#48f1;stroke:#48f8!important}
.cross{stroke:#d00;stroke-width:3px;fill:none}
line{stroke:#999;stroke-width:1.5px} text{font-size:9px;text-anchor:middle;pointer-events:none}
</style></head><body><h2 id="title"></h2>
<div id="bar"><button id="play">Pause</button><input id="at" type="range" min="0" value="0">
<select id="speed"><option value="0.25">¼ speed</option><option value="1" selected>speed 1</option>
<option value="4">speed 4</option></select><span id="clock"></span></div>
<svg id="svg"><g id="rings"></g><g id="links"></g><g id="words"></g><g id="nodes"></g>
<g id="crosses"></g></svg><p id="said"></p>
<p>A node's colour is that of its tree; the root has a thick rim; a red rim is a node that has just
failed. Dots are messages on their way. Point at a node for its depth.</p>
<p id="air" hidden>A ring is a radio frame that reaches out as far as the radio does, its dots are
receptions, and a red cross is a node in range at which a frame was lost. Only some of the frames
between two moments are drawn. <span id="lost"></span></p>
<script>
const film=/*DATA*/;
const NS='http://www.w3.org/2000/svg',el=id=>document.getElementById(id);
const make=(kind,into)=>into.appendChild(document.createElementNS(NS,kind));
const svg=el('svg'),count=film.frames.length;
svg.setAttribute('viewBox','0 0 '+film.size.join(' '));
el('title').textContent=film.title;el('at').max=count-1;
// Every frame as a whole: what the frames say is only what changed.
const whole=[];let n={},p={},l=[];
for(const f of film.frames){
  if(f.n){n={...n};for(const k in f.n){if(f.n[k]===null)delete n[k];else n[k]=f.n[k]}}
  if(f.p)p={...p,...f.p};
  if(f.l)l=f.l;
  whole.push({t:f.t,n,p,l,m:f.m||[],r:f.r||[],x:f.x||[]});
}
const hues={};const hue=c=>{if(!c||c==='none')return '#ddd';if(!(c in hues))hues[c]=
  Object.keys(hues).length*137%360;return 'hsl('+hues[c]+',65%,62%)'};
const nodes={},lines={},dots=[],failed={},rings=[],crosses=[];
if(film.range)el('air').hidden=false;
// One element for each entry of a list; further ones are hidden.
function each(list,made,kind,into,put){list.forEach((entry,j)=>{
    const e=made[j]||(made[j]=make(kind,el(into)));e.style.display=put(e,entry)?'':'none'});
  for(let j=list.length;j<made.length;j++)made[j].style.display='none'}
let now=Math.min(count-1,Number(location.hash.slice(1))||0),playing=!location.hash,before=null;
function node(k){if(!nodes[k]){const c=make('circle',el('nodes')),w=make('text',el('nodes'));
  c.setAttribute('r',9);w.textContent=k;nodes[k]={c,w,t:make('title',c)}}return nodes[k]}
function draw(){
  const i=Math.min(count-1,Math.floor(now)),f=whole[i],share=now-i,at={};
  for(const k in {...nodes,...f.n}){
    const s=f.n[k],o=node(k),to=f.p[k];
    if(s)delete failed[k];
    else if(o.alive&&failed[k]===undefined)failed[k]=i;
    o.alive=!!s;
    const shown=s||(failed[k]!==undefined&&i>=failed[k]&&i-failed[k]<25);
    o.c.style.display=o.w.style.display=shown?'':'none';
    if(!shown||!to)continue;
    if(!o.x&&o.x!==0||Math.abs(i-o.i)>3){o.x=to[0];o.y=to[1]}
    if(s){o.x+=(to[0]-o.x)*0.12;o.y+=(to[1]-o.y)*0.12}
    o.i=i;at[k]=[o.x,o.y];
    o.c.setAttribute('cx',o.x);o.c.setAttribute('cy',o.y);
    o.w.setAttribute('x',o.x);o.w.setAttribute('y',o.y+3);
    o.c.setAttribute('class',!s?'gone':s[2]==='root'?'root':'');
    if(s){o.c.style.fill=hue(s[0]);
      o.t.textContent=k+': colour '+s[0]+', depth '+s[1]+', parent '+s[2]}
  }
  const there={};
  for(const [a,b] of f.l){if(!at[a]||!at[b])continue;const k=a+'-'+b;there[k]=1;
    const e=lines[k]||(lines[k]=make('line',el('links')));
    e.style.display='';e.setAttribute('x1',at[a][0]);e.setAttribute('y1',at[a][1]);
    e.setAttribute('x2',at[b][0]);e.setAttribute('y2',at[b][1])}
  for(const k in lines)if(!there[k])lines[k].style.display='none';
  const coming=whole[Math.min(count-1,i+1)],words=coming.m;
  each(film.range?coming.r:[],rings,'circle','rings',(e,k)=>{if(!at[k])return false;
    e.setAttribute('class','ring');e.setAttribute('r',film.range*share);
    e.setAttribute('cx',at[k][0]);e.setAttribute('cy',at[k][1]);
    e.style.opacity=1-share;return true});
  each(share>0.5?coming.x:[],crosses,'path','crosses',(e,k)=>{if(!at[k])return false;
    const [x,y]=at[k];e.setAttribute('class','cross');
    e.setAttribute('d',`M${x-8},${y-8}l16,16m0,-16l-16,16`);return true});
  words.forEach(([kind,a,b],j)=>{
    const e=dots[j]||(dots[j]=make('circle',el('words')));
    if(!at[a]||!at[b]){e.style.display='none';return}
    e.style.display='';e.setAttribute('r',3);e.style.stroke='none';
    e.style.fill='hsl('+(kind*67%360)+',80%,40%)';
    e.setAttribute('cx',at[a][0]+(at[b][0]-at[a][0])*share);
    e.setAttribute('cy',at[a][1]+(at[b][1]-at[a][1])*share)});
  for(let j=words.length;j<dots.length;j++)dots[j].style.display='none';
  if(coming.r.length)el('lost').textContent=coming.r.length+' frames drawn, '+words.length+
    ' receptions, '+coming.x.length+' lost to collisions or a receiver that was sending';
  const up=Object.keys(f.n),roots=up.filter(k=>f.n[k][2]==='root');
  el('clock').textContent=f.t.toFixed(2)+' s';
  el('said').textContent=up.length+' nodes up, '+f.l.length+' links'+
    (roots.length?', '+roots.length+(roots.length>1?' trees':' tree'):'')+
    (words.length?'; on their way: '+[...new Set(words.map(w=>film.kinds[w[0]]))].join(', '):'');
  if(document.activeElement!==el('at')||playing)el('at').value=i;
}
function tick(t){
  if(before!==null&&playing){now+=(t-before)/1000*15*Number(el('speed').value);
    if(now>count-1){now=count-1;playing=false;el('play').textContent='Play'}}
  before=t;draw();requestAnimationFrame(tick)}
el('play').onclick=()=>{playing=!playing;if(playing&&now>=count-1)now=0;
  el('play').textContent=playing?'Pause':'Play'};
el('at').oninput=()=>{now=Number(el('at').value)};
if(!playing)el('play').textContent='Play';
requestAnimationFrame(tick);
</script></body></html>
"""
